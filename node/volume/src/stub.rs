#![allow(missing_docs, clippy::all, clippy::pedantic, unused, missing_debug_implementations)]
use std::{path::{Path,PathBuf}, sync::Arc, ops::Range};
use bytes::Bytes;
use sherd_core::id::*; use sherd_core::heal::HealId; use sherd_core::env::Clock;
use sherd_core::register::*; use crate::request::*; use crate::disk::Disk; use crate::index::*; use crate::error::*;
pub mod buffer {
    use bytes::Bytes;
    #[derive(Debug)] pub struct BufferPool; #[derive(Debug)] pub struct Buffer;
    impl BufferPool { pub fn cap(&self)->usize {todo!()} pub fn try_take(&self, l: usize)->Option<Buffer>{todo!()} pub fn new(cap: usize)->std::sync::Arc<Self>{todo!()} }
    impl Buffer { pub fn freeze(self, l: usize)->Bytes{todo!()} }
    impl std::ops::Deref for Buffer { type Target=[u8]; fn deref(&self)->&[u8]{todo!()} }
    impl std::ops::DerefMut for Buffer { fn deref_mut(&mut self)->&mut [u8]{todo!()} }
}
use buffer::*;
#[derive(Debug, Clone)] pub struct Expected { pub cluster: ClusterId, pub volume: Option<VolumeId> }
#[derive(Debug, Clone, Default)] pub struct Options { }
pub trait IndexSource: Send { fn open(&mut self) -> Result<Arc<dyn Index>, IndexError>; fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError>; }
pub struct Setup { pub disk: Arc<dyn Disk>, pub path: PathBuf, pub clock: Arc<dyn Clock>, pub index: Box<dyn IndexSource>, pub buffers: Arc<BufferPool>, pub expected: Expected, pub options: Options }
pub struct NewVolume { pub volume: VolumeId, pub incarnation: Incarnation, pub recovering: bool }
#[derive(Debug)] pub struct RottenRecord;
#[derive(Debug)] pub struct OpenReport { pub clean: bool, pub replayed_records: u64, pub torn_tail: bool, pub index_rebuilt: Option<String>, pub lost_state: Option<String>, pub rotten: Vec<RottenRecord>, pub took_us: u64 }
pub fn open(setup: Setup) -> Result<(Volume, OpenReport), OpenError> {todo!()}
pub fn create(setup: &Setup, new: NewVolume) -> Result<(), OpenError> {todo!()}
pub struct Volume; 
#[derive(Debug, Clone, Copy)] pub struct Step { pub more: bool, pub wake_at_us: Option<u64>, pub upkeep: bool }
pub enum Compacted { Idle, Progress { copied_bytes: u64, read_bytes: u64 }, Reclaimed { segment: u64 } }
impl Volume {
    pub fn submit(&mut self, op: Op) {todo!()}
    pub fn step(&mut self) -> Step{todo!()}
    pub fn reader(&self) -> Arc<Reader>{todo!()}
    pub fn compact_step(&mut self, budget_bytes: u64) -> Result<Compacted, Error>{todo!()}
    pub fn begin_life(&mut self, incarnation: Incarnation) -> Result<(), Error>{todo!()}
    pub fn fail(&mut self, reason: &str){todo!()}
    pub fn close(self) -> Result<(), Error>{todo!()}
}
#[derive(Debug)] pub struct Reader;
pub enum Lookup<T> { Immediate(T), Pending }
#[derive(Debug, Clone)] pub struct ScannedRow { pub key: RegisterKey, pub row: Row }
#[derive(Debug, Clone)] pub enum Listed { Row(ScannedRow), Prefix { prefix: Bytes, witness: ScannedRow } }
#[derive(Debug, Clone)] pub struct ListPage { pub entries: Vec<Listed>, pub next: Option<Bytes> }
#[derive(Debug, Clone)] pub struct ListScan { pub bucket: BucketId, pub epoch: Epoch, pub prefix: Bytes, pub after: Option<Bytes>, pub delimiter: Option<Bytes>, pub limit: usize }
#[derive(Debug, Clone)] pub struct RowPage { pub rows: Vec<ScannedRow>, pub next: Option<RegisterKey> }
#[derive(Debug, Clone)] pub struct ChangedPage { pub keys: Vec<RegisterKey>, pub next: Option<Sequence> }
#[derive(Debug, Clone)] pub enum State { Serving, Recovering { may_write: bool }, Failed { reason: String } }
#[derive(Debug, Clone)] pub struct Status { pub state: State, pub incarnation: Incarnation }
#[derive(Debug, Default)] pub struct ScrubCursor; 
#[derive(Debug)] pub struct ScrubStep;
#[derive(Debug)] pub struct ShardFiles;
impl Reader {
    pub fn row(&self, target: &Target, want_value: bool) -> Result<Lookup<Answer<Vote>>, Error>{todo!()}
    pub fn prepare(&self, target: &Target, prepare: &Prepare, want_value: bool) -> Result<Lookup<Answer<Vote>>, Error>{todo!()}
    pub fn inline(&self, key: &RegisterKey, ballot: Ballot) -> Result<Bytes, Error>{todo!()}
    pub fn packed(&self, shard: ShardId, range: Range<u64>) -> Result<Vec<Bytes>, Error>{todo!()}
    pub fn packed_cached(&self, shard: ShardId, range: Range<u64>) -> Result<Lookup<Vec<Bytes>>, Error>{todo!()}
    pub fn packed_len(&self, shard: ShardId) -> Result<u64, Error>{todo!()}
    pub fn list(&self, request: &ListScan) -> Result<Answer<ListPage>, Error>{todo!()}
    pub fn parts(&self, bucket: BucketId, upload: UploadId, after: Option<u16>, limit: usize) -> Result<Answer<Vec<ScannedRow>>, Error>{todo!()}
    pub fn rows(&self, after: Option<&RegisterKey>, limit: usize, want_value: bool) -> Result<RowPage, Error>{todo!()}
    pub fn changed_since(&self, sequence: Sequence, limit: usize) -> Result<ChangedPage, Error>{todo!()}
    pub fn unsettled(&self, after: Option<&RegisterKey>, limit: usize) -> Result<Vec<(RegisterKey, Ballot)>, Error>{todo!()}
    pub fn heals(&self, after: Option<HealId>, limit: usize) -> Result<Vec<(HealId, Bytes)>, Error>{todo!()}
    pub fn shards(&self, after: Option<ShardId>, limit: usize) -> Result<Vec<SeenShard>, Error>{todo!()}
    pub fn seals(&self) -> Vec<(BucketId, Vec<ChangeId>)>{todo!()}
    pub fn guarantees(&self) -> Guarantees{todo!()}
    pub fn answerer(&self) -> Answerer{todo!()}
    pub fn status(&self) -> Status{todo!()}
    pub fn shard_files(&self) -> &Arc<ShardFiles>{todo!()}
    pub fn upkeep(&self) -> Result<(), Error>{todo!()}
    pub fn check_directory(&self) -> Result<(), Error>{todo!()}
    pub fn scrub(&self, cursor: &mut ScrubCursor, budget_bytes: u64) -> Result<ScrubStep, Error>{todo!()}
}
impl ShardFiles {}
