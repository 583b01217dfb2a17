//! The settings of a running node that may change, and the rooms that take them.
//!
//! Each room registers what it does with them, which is done at once and again after each change: no room
//! looks a setting up for a request. `follow` hands in what the files say.

use parking_lot::Mutex;
use sherd_core::id::ClusterId;

use crate::process::config::files::FileDigest;
use crate::process::config::hot::HotSettings;
use sherd_store::observe::trace::SlowRequests;

/// Hands the settings to a room.
type TakeSettings = Box<dyn FnMut(&HotSettings) + Send>;

/// The settings in force.
pub struct LiveSettings(Mutex<LiveState>);

struct LiveState {
    hot: HotSettings,
    loaded: LoadedConfig,
    /// Why the files that are there are not in force.
    refusal: Option<String>,
    rooms: Vec<TakeSettings>,
    /// The `cluster.formed` of the last live file.
    formed: Option<ClusterId>,
}

/// Files that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedConfig {
    /// 1 at the start, one more each time that changed files were loaded.
    pub generation: u64,
    /// The digest of the live file; absent where it is missing.
    pub live: Option<FileDigest>,
}

impl std::fmt::Debug for LiveSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveSettings").field("loaded", &self.loaded()).finish_non_exhaustive()
    }
}

impl LiveSettings {
    /// The settings of a start, of a live file with this digest.
    pub fn new(hot: HotSettings, live: Option<FileDigest>) -> Self {
        let loaded = LoadedConfig { generation: 1, live };
        let formed = hot.formed.filter(|_| live.is_some());
        Self(Mutex::new(LiveState { hot, loaded, refusal: None, rooms: vec![], formed }))
    }

    /// Has a room take the settings: now, and after each change. `take` must not wait.
    pub fn on_change(&self, mut take: impl FnMut(&HotSettings) + Send + 'static) {
        let mut state = self.0.lock();
        take(&state.hot);
        state.rooms.push(Box::new(take));
    }

    /// Puts changed settings into force; every room has taken them when it returns.
    ///
    /// Of a live file that is gone the `cluster.formed` holds on. Only a file that is there and does not name
    /// the cluster lets it be formed again.
    pub fn load(&self, hot: HotSettings, live: Option<FileDigest>) -> LoadedConfig {
        let mut state = self.0.lock();
        let LiveState { hot: current, loaded, refusal, rooms, formed } = &mut *state;
        *current = hot;
        match live {
            Some(_) => *formed = current.formed,
            None => current.formed = current.formed.or(*formed),
        }
        *refusal = None;
        for take in rooms {
            take(current);
        }
        *loaded = LoadedConfig { generation: loaded.generation + 1, live };
        *loaded
    }

    /// Notes why the files that are there are not in force; `None` where they are.
    pub fn set_refusal(&self, refusal: Option<String>) {
        self.0.lock().refusal = refusal;
    }

    /// Makes a log of slow requests, by the threshold in force.
    pub fn slow_requests(&self) -> SlowRequests {
        let slow = SlowRequests::after(self.now().slow_request);
        let changed = slow.clone();
        self.on_change(move |hot| changed.change(hot.slow_request));
        slow
    }

    /// Returns the settings in force.
    pub fn now(&self) -> HotSettings {
        self.0.lock().hot.clone()
    }

    /// Returns why the files that are there are not in force.
    pub fn refusal(&self) -> Option<String> {
        self.0.lock().refusal.clone()
    }

    /// Returns which files are in force.
    pub fn loaded(&self) -> LoadedConfig {
        self.0.lock().loaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::config::files::ConfigFiles;

    /// A ConfigMap that is deleted does not order an empty cluster.
    #[test]
    fn a_live_file_that_is_gone_lets_no_cluster_be_formed_again() {
        let of = |formed: Option<ClusterId>| {
            let (_texts, settings) = ConfigFiles::default().start().expect("no file");
            HotSettings { formed, ..settings.hot().expect("defaults") }
        };
        let (id, file) = (Some(ClusterId([7; 16])), Some([1; 32]));
        let live = LiveSettings::new(of(None), None);
        live.load(of(id), file);
        live.load(of(None), None);
        live.load(of(None), None);
        assert_eq!(live.now().formed, id);
        live.load(of(None), file);
        assert_eq!(live.now().formed, None);
        live.load(of(None), None);
        assert_eq!(live.now().formed, None);
    }
}
