//! A master of the cluster dies, and its replica takes over.

use super::super::lost_writes::{answered, caught_up, command, quarantine};
use super::*;
use cairn_testkit::RedisServer;
use std::cell::Cell;

/// Sessions on all servers, some of them beside `a`.
const SESSIONS: [&str; 10] = ["a", "o0", "o1", "o2", "o3", "o4", "o5", "o7", "o8", "o9"];

/// A cluster and two stores on it, in which those sessions have an owner and one transition.
struct World {
    cluster: RedisCluster,
    /// The place of the master that has `a`, the one that the stores were told of.
    place: usize,
    here: RedisStore,
    there: RedisStore,
    /// The sessions that the same master has.
    beside: Vec<&'static str>,
    elsewhere: Vec<&'static str>,
}

impl World {
    async fn begin() -> Self {
        let cluster = RedisCluster::with_replicas();
        let (here, there) = (open(&cluster).await, open(&cluster).await);
        for session in SESSIONS {
            here.create(creation(session, Some("one"))).await.unwrap();
        }
        commit_all(&here, &SESSIONS, 0).await;
        cluster.wait_until_replicated();
        let place_of = |session| cluster.place_of(&format!("space/{session}"));
        let place = place_of("a");
        assert_eq!(place, 0);
        let (beside, elsewhere): (Vec<_>, Vec<_>) = SESSIONS
            .into_iter()
            .partition(|session| place_of(session) == place);
        assert!(
            beside.len() > 1 && elsewhere.len() > 1,
            "{beside:?} {elsewhere:?}"
        );
        Self {
            cluster,
            place,
            here,
            there,
            beside,
            elsewhere,
        }
    }

    /// The last transition of each session that the master had, once more, and the next, as soon as
    /// somebody takes them; until then all others go on without a fault. Gives their next transition.
    async fn others_go_on_until_taken(&self, version: u64, mut of_others: u64) -> u64 {
        let is_taken = Cell::new(false);
        let taken = async {
            for session in &self.beside {
                // Who has had no answer sends it again, and learns that it has happened.
                let last = || self.there.commit(transition(session, "one", version - 1));
                let last = answered(last).await.unwrap();
                assert_eq!((last.duplicate, last.first_seq), (true, 1 + version));
                let next = || self.here.commit(transition(session, "one", version));
                let next = answered(next).await.unwrap();
                assert_eq!(next.first_seq, 2 + version, "{session}");
            }
            is_taken.set(true);
        };
        let go_on = async {
            while !is_taken.get() {
                commit_all(&self.here, &self.elsewhere, of_others).await;
                of_others += 1;
            }
        };
        tokio::join!(taken, go_on);
        of_others
    }

    /// Nothing was lost, so nothing is told.
    async fn check_nothing_is_told(&self) {
        for store in [&self.here, &self.there] {
            assert_eq!(*store.losses().borrow(), 0);
            assert_eq!(quarantine(store).await, [""; 0]);
        }
    }
}

async fn commit_all(store: &RedisStore, sessions: &[&str], version: u64) {
    for session in sessions {
        let next = store.commit(transition(session, "one", version)).await;
        assert_eq!(next.unwrap().first_seq, 2 + version, "{session}");
    }
}

/// What comes next is the event of this number, and perhaps others after it; gives the last.
async fn sees(events: &mut EventStream, seq: u64) -> u64 {
    let batch = tokio::time::timeout(Duration::from_secs(60), events.next()).await;
    let batch = batch.unwrap().unwrap().unwrap();
    assert_eq!(batch[0].seq, seq);
    batch.last().unwrap().seq
}

#[tokio::test]
async fn a_replica_in_step_takes_over_and_other_sessions_do_not_notice() {
    let mut world = World::begin().await;
    let other = world.elsewhere[0];
    let mut of_a = caught_up(&world.there, "a").await;
    let mut of_other = caught_up(&world.there, other).await;
    let place = world.place;
    world.cluster.servers[place].kill();
    let others = world.others_go_on_until_taken(1, 1).await;
    assert!(
        world.cluster.replicas[place]
            .ask(&["ROLE"])
            .contains("master")
    );
    sees(&mut of_a, 3).await;
    let mut seen = 2;
    while seen <= others {
        seen = sees(&mut of_other, seen + 1).await;
    }

    // The master comes back as a replica, and takes over again.
    world.cluster.servers[place].start_again();
    world.cluster.wait_until_whole();
    commit_all(&world.here, &world.beside, 2).await;
    sees(&mut of_a, 4).await;
    world.cluster.wait_until_replicated();
    world.cluster.replicas[place].kill();
    world.others_go_on_until_taken(3, others).await;
    assert!(
        world.cluster.servers[place]
            .ask(&["ROLE"])
            .contains("master")
    );
    sees(&mut of_a, 5).await;
    world.check_nothing_is_told().await;
}

/// A frozen server is taken for dead, and knows nothing of that when it continues.
#[tokio::test]
async fn a_call_to_a_frozen_master_is_resolved_at_its_replica() {
    let world = World::begin().await;
    let mut of_a = caught_up(&world.there, "a").await;
    let master = &world.cluster.servers[world.place];
    master.freeze();
    let unanswered = world.here.commit(transition("a", "one", 1)).await;
    let is_open = matches!(unanswered, Err(StoreError::Unknown { .. }));
    assert!(is_open, "{unanswered:?}");
    let again = answered(|| world.here.commit(transition("a", "one", 1))).await;
    let again = again.unwrap();
    assert_eq!((again.duplicate, again.first_seq), (false, 3));
    // What it was sent lies before it still.
    master.thaw();
    for version in 2..10 {
        let next = || world.here.commit(transition("a", "one", version));
        assert_eq!(answered(next).await.unwrap().first_seq, 2 + version);
    }
    let mut seen = 2;
    while seen < 11 {
        seen = sees(&mut of_a, seen + 1).await;
    }
    world.cluster.wait_until_whole();
    commit_all(&world.here, &["a"], 10).await;
    commit_all(&world.here, &world.elsewhere, 1).await;
    world.check_nothing_is_told().await;
}

/// A drill: nobody dies, and the master hands over; and then back.
#[tokio::test]
async fn a_master_that_hands_over_disturbs_nobody() {
    let world = World::begin().await;
    let (cluster, place) = (&world.cluster, world.place);
    let mut of_a = caught_up(&world.there, "a").await;
    let (mut version, mut others, mut seen) = (1, 1, 2);
    for heirs in [&cluster.replicas, &cluster.servers] {
        let heir: &RedisServer = &heirs[place];
        assert_eq!(heir.ask(&["CLUSTER", "FAILOVER"]), "+OK\r\n");
        let (start, mut has_all) = (Instant::now(), false);
        while !has_all {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "it hands nothing over"
            );
            has_all = heir.ask(&["ROLE"]).contains("master");
            others = world.others_go_on_until_taken(version, others).await;
            version += 1;
        }
        while seen <= version {
            seen = sees(&mut of_a, seen + 1).await;
        }
        cluster.wait_until_whole();
        cluster.wait_until_replicated();
    }
    world.check_nothing_is_told().await;
}

#[tokio::test]
async fn what_a_replica_lacks_is_told_of_the_sessions_of_its_master_alone() {
    let mut world = World::begin().await;
    let (place, other) = (world.place, world.elsewhere[0]);
    world.cluster.cut_off_replica(place);
    commit_all(&world.here, &SESSIONS, 1).await;
    let mut of_a = caught_up(&world.there, "a").await;
    let mut of_other = caught_up(&world.there, other).await;
    world.cluster.servers[place].kill();
    for session in &world.beside {
        let next = answered(|| world.here.commit(transition(session, "one", 2))).await;
        let behind = StoreError::WentBack {
            known: 2,
            stored: 1,
        };
        assert_eq!(next, Err(behind), "{session}");
    }
    let told = tokio::time::timeout(Duration::from_secs(60), of_a.next()).await;
    let behind = StoreError::WentBack {
        known: 3,
        stored: 2,
    };
    assert_eq!(told.expect("to be told in time"), Some(Err(behind)));
    commit_all(&world.here, &world.elsewhere, 2).await;
    sees(&mut of_other, 4).await;
    let losses = world.beside.len() as u64;
    assert_eq!(*world.here.losses().borrow(), losses);
    assert_eq!(*world.there.losses().borrow(), 1);
    assert_eq!(quarantine(&world.there).await, world.beside);

    // The master that comes back has what was lost, and is told to forget it.
    world.cluster.wait_until_promoted(place);
    world.cluster.servers[place].start_again();
    world.cluster.wait_until_whole();
    let a = key("a");
    let unaware = world.here.release_quarantine(&a, false).await;
    assert_eq!(unaware, Err(StoreError::WritesLost));
    world.here.release_quarantine(&a, true).await.unwrap();
    let claims = world.there.claim(claim("two")).await.unwrap().claims;
    assert_eq!((claims.len(), &claims[0].key), (1, &a));
    let next = Commit {
        epoch: 2,
        ..transition("a", "two", 1)
    };
    assert_eq!(world.there.commit(next).await.unwrap().first_seq, 3);
    world.cluster.wait_until_replicated();
    world.cluster.replicas[place].kill();
    let appended = answered(|| world.here.append_command(command("a"))).await;
    assert_eq!(appended.unwrap().seq, 4);
    assert_eq!(*world.here.losses().borrow(), losses);
    assert_eq!(*world.there.losses().borrow(), 1);
    assert_eq!(quarantine(&world.there).await, world.beside[1..]);
}
