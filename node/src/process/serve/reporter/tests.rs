//! Moments of a node alone: when they come, and how a node is shown that has none.

use std::sync::atomic::{AtomicBool, Ordering};

use sherd_core::id::Life;
use sherd_core::report::VolumeStanding;
use sherd_store::machine::system::{SystemClock, SystemRng};
use sherd_volume::options::Durability;
use tokio::time::timeout;

use super::*;
use crate::process::config::files::ConfigFiles;
use crate::process::config::hot::HotSettings;
use crate::process::serve::store::tests::open;

fn alone() -> (Arc<Health>, Arc<NodeReporter>) {
    alone_by(Arc::new(SystemClock::new()))
}

fn alone_by(clock: Arc<dyn Clock>) -> (Arc<Health>, Arc<NodeReporter>) {
    let health = Arc::new(Health::opening(Durability::None, Duration::ZERO));
    let identity = node_identity("n1".to_owned(), &SystemRng);
    let live = Arc::new(LiveSettings::new(defaults(), None));
    let config = ReporterConfig { identity, health: Arc::clone(&health), live, clock, peers: None };
    (health, Arc::new(NodeReporter::new(config)))
}

/// The settings of a node without files.
fn defaults() -> HotSettings {
    let (_texts, settings) = ConfigFiles::default().start().expect("no file");
    settings.hot().expect("defaults")
}

/// A clock that panics while its flag is set.
#[derive(Debug, Default)]
struct PanickingClock(AtomicBool);

impl Clock for PanickingClock {
    fn wall_ms(&self) -> u64 {
        5_000
    }

    fn monotonic_us(&self) -> u64 {
        assert!(!self.0.load(Ordering::Relaxed), "the test says so");
        1
    }
}

/// Asserts that the node is shown as unknown, with the volumes and lives of `before`.
fn assert_unknown(health: &Health, before: &NodeMoment) {
    let (moment, readiness, serving) = (health.moment(), health.readiness(), health.serving());
    assert!(!readiness.ready && !serving.serving);
    assert!(readiness.problems[0].contains("is not known"), "{:?}", readiness.problems);
    assert_eq!(readiness.degraded_volumes.len(), before.report.volumes.len());
    assert!(moment.report.has_damage_since(Duration::MAX), "no node counts volumes as healed");
    let lives = |moment: &NodeMoment| -> Vec<_> {
        moment.report.volumes.iter().map(|volume| (volume.volume, volume.life)).collect()
    };
    assert_eq!(lives(&moment), lives(before));
    let is_away = |volume: &VolumeReport| !(volume.is_open || volume.votes() || volume.is_healed());
    assert!(moment.report.volumes.iter().all(is_away));
    assert_eq!(moment.report.topology_digest, before.report.topology_digest);
}

#[tokio::test(start_paused = true)]
async fn a_moment_is_shown_each_second_and_a_stop_at_once() {
    let (health, reporter) = alone();
    let mut moments = health.moments();
    start_reporting(&reporter, &TaskTracker::new(), &CancellationToken::new());
    moments.changed().await.expect("it runs");
    let begun = Instant::now();
    moments.changed().await.expect("it runs");
    assert!(begun.elapsed() <= REPORT_EVERY, "the clock of the test stands still between timers");
    assert!(!health.moment().report.is_stopping);
    let stopped = Instant::now();
    health.stop();
    moments.wait_for(|moment| moment.report.is_stopping).await.expect("it runs");
    assert!(stopped.elapsed() <= REPORT_GAP);
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_no_other_one_follows_is_not_known_after_half_a_minute() {
    let set = SetReport {
        set: 0,
        volumes: 1,
        voting: 1,
        with_room: 1,
        taking_shards: 1,
        shards_needed: 1,
        write_quorum: 1,
        read_quorum: 1,
    };
    let volume = VolumeReport {
        condition: Some(VolumeCondition::Online),
        standing: VolumeStanding::Voting,
        is_open: true,
        life: Some(Life(7)),
        healed_since_ms: Some(5_000),
        ..VolumeReport::of(VolumeId([1; 16]))
    };
    let (health, reporter) = alone();
    let report = NodeReport { volumes: vec![volume], ..NodeReport::clone(&health.moment().report) };
    let whole = NodeMoment { sets: vec![set], ..NodeMoment::of(report) };
    health.show(whole.clone());
    health.serve();
    let watching = Arc::clone(&health);
    tokio::spawn(async move { watch_moments(&watching, REPORT_EVERY).await });
    sleep((MOMENT_TURNS_MAX - 1) * REPORT_EVERY).await;
    assert!(health.readiness().ready, "a machine may be busy");
    assert_eq!(*health.moment(), whole);
    sleep(2 * REPORT_EVERY).await;
    assert_unknown(&health, &whole);
    let status = reporter.status();
    assert!(status.sets.is_empty() && status.problems[0].contains("not computed for 30 s"));
    assert!(status.volumes.iter().all(|volume| volume.healed_since_ms == 0), "{status:?}");
    health.show(whole.clone());
    assert!(health.readiness().ready);
    sleep(MOMENT_AGE_MAX + REPORT_EVERY).await;
    assert_unknown(&health, &whole);
}

#[tokio::test(start_paused = true)]
async fn a_reporter_that_goes_on_is_never_unknown() {
    let (health, reporter) = alone();
    start_reporting(&reporter, &TaskTracker::new(), &CancellationToken::new());
    let mut moments = health.moments();
    let is_unknown = |moment: &Arc<NodeMoment>| !moment.problems.is_empty();
    let shown = timeout(10 * MOMENT_AGE_MAX, moments.wait_for(is_unknown)).await;
    assert!(shown.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reporter_that_is_blocked_makes_its_node_not_known_until_it_goes_on() {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let store = open(folder.path()).await;
    let (health, reporter) = alone();
    reporter.serve(&store);
    health.serve();
    let before = health.moment();
    let (until, dropped) = std::sync::mpsc::channel::<()>();
    let (held, is_held) = std::sync::mpsc::channel();
    let blocked = Arc::clone(&reporter);
    let holder = std::thread::spawn(move || {
        let _stage = blocked.stage.write();
        held.send(()).expect("the test waits");
        dropped.recv().ok();
    });
    is_held.recv().expect("it holds what a moment needs");
    let mut moments = health.moments();
    let watching = Arc::clone(&health);
    tokio::spawn(async move { watch_moments(&watching, REPORT_GAP).await });
    tokio::spawn(async move { reporter.run(REPORT_EVERY).await });
    let is_unknown = |moment: &Arc<NodeMoment>| moment.sets.is_empty();
    timeout(Duration::from_mins(1), moments.wait_for(is_unknown)).await.expect("shown").expect("it runs");
    assert_unknown(&health, &before);
    drop(until);
    holder.join().expect("it ends");
    let is_known = |moment: &Arc<NodeMoment>| !moment.sets.is_empty() && moment.problems.is_empty();
    timeout(Duration::from_mins(1), moments.wait_for(is_known)).await.expect("shown").expect("it runs");
    store.close().await;
}

#[tokio::test]
async fn a_moment_that_cannot_be_computed_keeps_the_volumes_and_their_lives() {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let store = open(folder.path()).await;
    let clock = Arc::new(PanickingClock::default());
    let (health, reporter) = alone_by(Arc::<PanickingClock>::clone(&clock));
    reporter.serve(&store);
    health.serve();
    let before = health.moment();
    assert!(before.report.volumes.iter().all(|volume| volume.life.is_some()));
    clock.0.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        reporter.refresh();
        assert_unknown(&health, &before);
    }
    clock.0.store(false, Ordering::Relaxed);
    reporter.refresh();
    assert!(health.readiness().ready && health.moment().problems.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_volume_that_goes_away_is_shown_without_waiting_for_the_next_second() {
    let folder = tempfile::TempDir::new().expect("a folder for the test");
    let store = open(folder.path()).await;
    let (health, reporter) = alone();
    reporter.serve(&store);
    health.serve();
    assert!(health.readiness().ready, "the moment is there before S3 is announced");
    let mut moments = health.moments();
    tokio::spawn(async move { reporter.run(Duration::from_hours(1)).await });
    store.close().await;
    let is_away = |moment: &Arc<NodeMoment>| moment.sets.iter().all(|set| set.voting == 0);
    let shown = timeout(Duration::from_mins(1), moments.wait_for(is_away)).await;
    shown.expect("no second has to pass").expect("it runs");
    let readiness = health.readiness();
    assert_eq!((readiness.ready, readiness.degraded_volumes.len()), (false, 4));
}

/// Judges one volume, second by second.
fn judged() -> impl FnMut(u64, VolumeCondition, Option<WaitingDamage>) -> Option<u64> {
    let mut judge = HealedJudge::default();
    move |second, condition, damage| {
        let report = VolumeReport {
            condition: Some(condition),
            standing: VolumeStanding::Voting,
            ..VolumeReport::of(VolumeId([1; 16]))
        };
        let mut volumes = [report];
        let now = Now { monotonic_us: second * 1_000_000, wall_ms: 5_000 + second * 1_000 };
        judge.judge(&mut volumes, damage, now);
        volumes[0].healed_since_ms
    }
}

#[test]
fn a_volume_that_is_well_for_ten_seconds_is_healed_while_no_node_has_damage() {
    let mut healed_at = judged();
    let (online, full) = (VolumeCondition::Online, VolumeCondition::Full);
    let (none, young, old) =
        (Some(WaitingDamage::None), Some(WaitingDamage::Young), Some(WaitingDamage::Old));
    assert_eq!(healed_at(0, online, none), None);
    assert_eq!(healed_at(9, online, none), None);
    assert_eq!(healed_at(10, full, none), Some(15_000), "a full volume lacks nothing");
    assert_eq!(healed_at(11, online, young), None, "it may have missed that before it was well");
    assert_eq!(healed_at(12, online, none), Some(17_000));
    assert_eq!(healed_at(13, online, old), None);
    assert_eq!(healed_at(14, VolumeCondition::Recovering, none), None);
    assert_eq!(healed_at(23, online, none), None, "the ten seconds begin again");
    assert_eq!(healed_at(33, online, none), Some(38_000));
    assert_eq!(healed_at(34, online, None), None, "a node is down");
    assert_eq!(healed_at(35, online, none), None);
    assert_eq!(healed_at(45, online, none), Some(50_000));
    assert_eq!(healed_at(75, online, none), None, "what was meanwhile is not known");
    assert_eq!(healed_at(85, online, none), Some(90_000));
}

/// On slow disks some write misses a volume at any moment. The writes that a node missed while it was down
/// are old when younger damage no longer counts.
#[test]
fn a_volume_that_is_well_for_long_is_healed_beside_damage_that_is_healed_soon() {
    let mut healed_at = judged();
    let online = VolumeCondition::Online;
    let (young, old) = (Some(WaitingDamage::Young), Some(WaitingDamage::Old));
    let steady = STEADY_AFTER.as_secs();
    for second in 0..steady {
        assert_eq!(healed_at(second, online, young), None, "second {second}");
    }
    let since = Some(5_000 + steady * 1_000);
    assert_eq!(healed_at(steady, online, young), since);
    assert_eq!(healed_at(steady + 1, online, young), since);
    assert_eq!(healed_at(steady + 1, VolumeCondition::Full, young), None, "no heal follows");
    assert_eq!(healed_at(steady + 1, online, young), Some(5_000 + (steady + 1) * 1_000));
    assert_eq!(healed_at(steady + 2, online, old), None, "it is not healed");
    assert_eq!(healed_at(steady + 3, online, young), Some(5_000 + (steady + 3) * 1_000));
    assert_eq!(healed_at(steady + 4, online, None), None);
    assert_eq!(healed_at(steady + 5, online, young), None, "all of it begins again");
}

#[test]
fn damage_of_an_age_that_is_not_known_is_old() {
    let report = |reports_waiting, damage_age| NodeReport {
        reports_waiting,
        damage_age,
        ..NodeReport::of("n1".to_owned(), ProcessId([1; 16]))
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(damage_of(&report(0, None)), WaitingDamage::None);
    assert_eq!(damage_of(&report(2, seconds(9))), WaitingDamage::Young);
    assert_eq!(damage_of(&report(2, seconds(10))), WaitingDamage::Old);
    assert_eq!(damage_of(&report(2, None)), WaitingDamage::Old, "an older node does not say it");
}
