//! Sessions that may go, and their end.

use super::memory::set;
use super::support::*;
use crate::port::{
    Commit, Create, End, Header, IdleSession, ListQuery, SessionKey, SessionStatus, StoreError,
};

/// How long the sessions of the cases stay by default.
const AFTER: u64 = 10_000;

impl Subject {
    /// The sessions that may go, by id, in the order of their names.
    pub(super) async fn idle(&self, after_ms: Option<u64>) -> Vec<String> {
        let idle = self.idle_sessions(after_ms).await;
        let mut ids: Vec<_> = idle.iter().map(|s| s.key.session().to_owned()).collect();
        ids.sort_unstable();
        ids
    }

    async fn idle_sessions(&self, after_ms: Option<u64>) -> Vec<IdleSession> {
        self.store.idle(after_ms, 100).await.unwrap()
    }

    /// A session that stays so long without a change.
    pub(super) async fn with_ttl(&self, id: &str, ttl_ms: u64) -> SessionKey {
        let key = key(id);
        let create = Create {
            time_to_live_ms: Some(ttl_ms),
            ..creation(&key)
        };
        self.store.create(create).await.unwrap();
        key
    }

    async fn end(&self, key: &SessionKey, last_seq: u64) -> bool {
        let end = End::Expired;
        let ended = self.store.delete_unchanged(key, last_seq, end).await;
        ended.unwrap()
    }
}

/// A parking transition that leaves the session in some status.
fn parks_as(owner: &Owner, status: SessionStatus) -> Commit {
    Commit {
        header: Header {
            status,
            handled_through: owner.seen,
            ..Header::default()
        },
        ..owner.parking(None)
    }
}

pub async fn an_idle_session_may_go_after_its_time(subject: &Subject) {
    let made_at = subject.store.now().await.unwrap();
    let never_ran = subject.parked("a").await;
    let mut ran = subject.owned("b", "one").await;
    ran.commit("x").await;
    ran.park(None).await;
    subject.pass(AFTER).await;
    assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
    subject.pass(1000).await;
    assert_eq!(subject.idle(None).await, [""; 0]);
    assert_eq!(subject.idle(Some(u64::MAX)).await, [""; 0]);
    let mut idle = subject.idle_sessions(Some(AFTER)).await;
    idle.sort_unstable_by_key(|session| session.last_seq);
    let [first, second] = &idle[..] else {
        panic!("{idle:?}");
    };
    assert_eq!((&first.key, first.last_seq), (&never_ran, 2));
    assert_eq!((&second.key, second.last_seq), (&ran.key, 4));
    for session in idle {
        let since = session.updated_unix_ms - made_at;
        assert!((0..AFTER as i64).contains(&since), "{since}");
    }
}

pub async fn a_session_at_work_does_not_go(subject: &Subject) {
    for (id, status) in [
        ("waits", SessionStatus::Waiting),
        ("runs", SessionStatus::Running),
        ("is-paused", SessionStatus::Paused),
    ] {
        let mut owner = subject.owned(id, "one").await;
        owner.make(parks_as(&owner, status)).await.unwrap();
    }
    let mut later = subject.owned("is-queued", "one").await;
    let far = subject.store.now().await.unwrap() + 100 * AFTER as i64;
    later.park(Some(far)).await;
    subject.owned("is-owned", "one").await;
    let commanded = subject.parked("has-a-command").await;
    subject.append(&commanded, "c").await;
    subject.pass(2 * AFTER).await;
    assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
    let ids = [
        "waits",
        "runs",
        "is-paused",
        "is-queued",
        "is-owned",
        "has-a-command",
    ];
    for id in ids {
        let last = subject.store.read(&key(id), 0, 1).await.unwrap().last_seq;
        assert!(!subject.end(&key(id), last).await, "{id} was deleted");
    }
    // Those that are claimed and have nothing to do may go, from that time on.
    let mut claimed = Vec::new();
    for claim in subject.claims("two").await.claims {
        let mut owner = subject.owner_of(&claim, "two").await;
        owner
            .make(parks_as(&owner, SessionStatus::Idle))
            .await
            .unwrap();
        claimed.push(claim.key.session().to_owned());
    }
    claimed.sort_unstable();
    assert_eq!(claimed, ["has-a-command", "is-owned"]);
    assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
    subject.pass(AFTER + 1000).await;
    assert_eq!(subject.idle(Some(AFTER)).await, claimed);
}

pub async fn a_change_keeps_a_session(subject: &Subject) {
    let remembering = subject.parked("a").await;
    let mut working = subject.owned("b", "one").await;
    working.park(None).await;
    for _ in 0..3 {
        subject.pass(AFTER - 1000).await;
        subject.remember(&remembering, set("k", "1")).await;
        subject
            .append(&working.key, &working.seen.to_string())
            .await;
        let mut owner = subject.claim_one("one").await;
        owner
            .make(parks_as(&owner, SessionStatus::Idle))
            .await
            .unwrap();
        working = owner;
        assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
    }
    subject.pass(AFTER + 1000).await;
    assert_eq!(subject.idle(Some(AFTER)).await, ["a", "b"]);
}

pub async fn a_time_to_live_counts_in_place_of_the_default(subject: &Subject) {
    subject.parked("default").await;
    let short = subject.with_ttl("short", 2000).await;
    subject.with_ttl("long", 3 * AFTER).await;
    assert_eq!(subject.idle(None).await, [""; 0]);
    subject.pass(1900).await;
    subject.remember(&short, set("k", "1")).await;
    subject.pass(1900).await;
    assert_eq!(subject.idle(None).await, [""; 0]);
    subject.pass(1000).await;
    assert_eq!(subject.idle(None).await, ["short"]);
    assert_eq!(subject.idle(Some(AFTER)).await, ["short"]);
    subject.pass(AFTER).await;
    assert_eq!(subject.idle(Some(AFTER)).await, ["default", "short"]);
    assert_eq!(subject.idle(None).await, ["short"]);
    subject.pass(3 * AFTER).await;
    assert_eq!(subject.idle(None).await, ["long", "short"]);
}

pub async fn a_session_that_may_go_goes_whole_and_says_how(subject: &Subject) {
    for (id, end) in [("a", End::Expired), ("b", End::Archived)] {
        let key = subject.parked(id).await;
        subject.remember(&key, set("k", "1")).await;
        let ended = subject.store.delete_unchanged(&key, 3, end).await;
        assert_eq!(ended, Ok(true));
        let again = subject.store.delete_unchanged(&key, 3, end).await;
        assert_eq!(again, Ok(false));
        assert_eq!(subject.store.delete(&key).await, Ok(false));
        let gone = Some(StoreError::Terminal(end));
        assert_eq!(subject.store.read(&key, 0, 1).await.err(), gone);
        assert_eq!(subject.store.list_memory(&key).await.err(), gone);
        assert_eq!(subject.store.create(creation(&key)).await.err(), gone);
        let command = subject.store.append_command(command(&key, "c")).await;
        assert_eq!(command.err(), gone);
    }
    let missing = key("unknown");
    let missing = subject
        .store
        .delete_unchanged(&missing, 1, End::Expired)
        .await;
    assert_eq!(missing, Err(StoreError::NotFound));
    let page = subject
        .store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap();
    assert!(page.sessions.is_empty());
    subject.pass(2 * AFTER).await;
    assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
}

/// Whatever happens between the look and the end, the session stays.
pub async fn a_session_that_changed_meanwhile_stays(subject: &Subject) {
    for id in ["remembers", "commanded", "claimed", "ran"] {
        subject.parked(id).await;
    }
    subject.pass(AFTER + 1000).await;
    let idle = subject.idle_sessions(Some(AFTER)).await;
    assert_eq!(idle.len(), 4);
    subject.remember(&key("remembers"), set("k", "1")).await;
    subject.append(&key("ran"), "c").await;
    let mut ran = subject.claim_one("one").await;
    ran.make(parks_as(&ran, SessionStatus::Idle)).await.unwrap();
    subject.append(&key("claimed"), "c").await;
    let claimed = subject.claim_one("one").await;
    subject.append(&key("commanded"), "c").await;
    for session in &idle {
        assert!(!subject.end(&session.key, session.last_seq).await);
        // Nor if only the number is right.
        let page = subject.store.read(&session.key, 0, 1).await.unwrap();
        let is_busy = ["commanded", "claimed"].contains(&session.key.session());
        assert!(!is_busy || !subject.end(&session.key, page.last_seq).await);
    }
    assert_eq!(subject.journal(&claimed.key).await, "1:made 2:first 3:c");
    assert_eq!(subject.memory(&key("remembers")).await, "k=1");
    assert_eq!(subject.idle(Some(AFTER)).await, [""; 0]);
}

pub async fn no_session_that_may_go_keeps_another(subject: &Subject) {
    const SESSIONS: usize = 9;
    for number in 0..SESSIONS {
        match number % 2 {
            0 => subject.parked(number).await,
            _ => subject.with_ttl(&number.to_string(), AFTER).await,
        };
    }
    subject.pass(AFTER + 1000).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 * SESSIONS {
        let idle = subject.store.idle(Some(AFTER), 2).await.unwrap();
        assert!(idle.len() <= 2);
        seen.extend(idle.into_iter().map(|session| session.key));
        // Nobody takes them away.
        subject.pass(1).await;
    }
    assert_eq!(seen.len(), SESSIONS);
}

/// Two that end sessions, and clients that come meanwhile: a session that took a change is there
/// with it, and one that ended did so once.
pub async fn a_session_goes_once_and_never_with_a_change(subject: &Subject) {
    const SESSIONS: usize = 40;
    for number in 0..SESSIONS {
        subject.parked(number).await;
    }
    subject.pass(AFTER + 1000).await;
    let janitor = || async {
        let mut ended = Vec::new();
        for session in subject.idle_sessions(Some(AFTER)).await {
            tokio::task::yield_now().await;
            if subject.end(&session.key, session.last_seq).await {
                ended.push(session.key);
            }
        }
        ended
    };
    let clients = async {
        let mut kept = Vec::new();
        for number in (0..SESSIONS).rev() {
            let key = key(number);
            let written = match number % 2 {
                0 => subject.try_remember(&key, set("k", "1")).await,
                _ => {
                    let append = subject.store.append_command(command(&key, "c")).await;
                    append.map(|appended| appended.seq)
                }
            };
            match written {
                Ok(seq) => kept.push((key, seq)),
                Err(error) => assert_eq!(error, StoreError::Terminal(End::Expired)),
            }
        }
        kept
    };
    let (one, two, kept) = tokio::join!(janitor(), janitor(), clients);
    assert_eq!(one.len() + two.len() + kept.len(), SESSIONS);
    for (key, seq) in kept {
        assert!(!one.contains(&key) && !two.contains(&key));
        assert_eq!(subject.store.read(&key, 0, 9).await.unwrap().last_seq, seq);
    }
}
