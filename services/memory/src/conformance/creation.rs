//! Creating and listing sessions.

use super::support::*;
use crate::port::{
    Create, Header, Lease, Limit, ListQuery, SessionKey, SessionStatus, StoreError, StoreResult,
};

pub async fn creation_numbers_events_from_one(subject: &Subject) {
    let key = key("a");
    let before = subject.store.now().await.unwrap();
    let created = subject.store.create(creation(&key)).await.unwrap();
    assert!(!created.duplicate);
    assert_eq!(created.lease, None);
    assert!(created.now_unix_ms >= before);
    let page = subject.store.read(&key, 0, 10).await.unwrap();
    assert_eq!(shown(&page.events), "1:made 2:first");
    assert_eq!((page.last_seq, page.version), (2, 0));
}

pub async fn creation_with_an_owner_leases_the_session(subject: &Subject) {
    let key = key("a");
    let created = subject
        .store
        .create(creation_by(&key, "one"))
        .await
        .unwrap();
    let lease = Lease {
        epoch: 1,
        until_unix_ms: created.now_unix_ms + i64::from(LEASE),
    };
    assert_eq!(created.lease, Some(lease));
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let mut owner = subject.owned("b", "one").await;
    assert!(owner.commit("x").await.owned());
}

pub async fn creation_without_an_owner_parks_the_session(subject: &Subject) {
    subject.parked("a").await;
    assert_eq!(subject.claimed("one").await, [""; 0]);
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("one").await, [""; 0]);
}

pub async fn creation_with_an_unhandled_command_queues_the_session(subject: &Subject) {
    let with = |id: &str, handled_through| Create {
        last_command_seq: 2,
        header: Header {
            status: SessionStatus::Running,
            handled_through,
            ..Header::default()
        },
        ..creation(&key(id))
    };
    subject.store.create(with("handled", 2)).await.unwrap();
    subject.store.create(with("unhandled", 0)).await.unwrap();
    assert_eq!(subject.claimed("one").await, ["unhandled"]);
}

pub async fn a_repeated_creation_is_a_duplicate_without_a_lease(subject: &Subject) {
    let key = key("a");
    subject.store.create(creation(&key)).await.unwrap();
    let other = Create {
        operation_id: "create-2".to_owned(),
        events: events("made differently"),
        ..creation_by(&key, "one")
    };
    let created = subject.store.create(other).await.unwrap();
    assert!(created.duplicate);
    assert_eq!(created.lease, None);
    assert_eq!(subject.journal(&key).await, "1:made 2:first");
}

pub async fn a_repeated_creation_gets_the_lease_that_it_took(subject: &Subject) {
    let key = key("a");
    let first = subject
        .store
        .create(creation_by(&key, "one"))
        .await
        .unwrap();
    let again = subject
        .store
        .create(creation_by(&key, "one"))
        .await
        .unwrap();
    assert!(again.duplicate);
    assert_eq!(again.lease, first.lease);
    // Somebody else who sends the same request does not get it.
    let other = subject
        .store
        .create(creation_by(&key, "two"))
        .await
        .unwrap();
    assert_eq!((other.duplicate, other.lease), (true, None));
    let attempt = Create {
        operation_id: "create-2".to_owned(),
        ..creation_by(&key, "one")
    };
    let other = subject.store.create(attempt).await.unwrap();
    assert_eq!((other.duplicate, other.lease), (true, None));
}

pub async fn a_repeated_creation_gets_no_lease_that_has_moved_on(subject: &Subject) {
    let mut owner = subject.owned("committed", "one").await;
    owner.commit("x").await;
    let again = subject
        .store
        .create(creation_by(&owner.key, "one"))
        .await
        .unwrap();
    assert_eq!((again.duplicate, again.lease), (true, None));

    let key = subject.owned("claimed", "one").await.key;
    subject.outlive_leases().await;
    subject.claimed("two").await;
    let again = subject
        .store
        .create(creation_by(&key, "one"))
        .await
        .unwrap();
    assert_eq!((again.duplicate, again.lease), (true, None));
}

pub async fn a_creation_with_another_digest_is_refused(subject: &Subject) {
    let key = subject.parked("a").await;
    let mut other = creation(&key);
    other.request.digest = bytes("another");
    let refused = subject.store.create(other).await;
    assert_eq!(refused, Err(StoreError::RequestMismatch));
}

pub async fn a_creation_of_somebody_elses_session_is_refused(subject: &Subject) {
    let key = subject.parked("a").await;
    let other = Create {
        request: request("another"),
        ..creation_by(&key, "one")
    };
    let refused = subject.store.create(other).await;
    assert_eq!(refused, Err(StoreError::RequestMismatch));
    assert_eq!(subject.journal(&key).await, "1:made 2:first");
}

pub async fn namespaces_do_not_see_each_other(subject: &Subject) {
    let mine = subject.parked("a").await;
    let theirs = SessionKey::new("elsewhere", "a");
    let missing = subject.store.read(&theirs, 0, 10).await;
    assert_eq!(missing, Err(StoreError::NotFound));
    let other = Create {
        request: request("theirs"),
        events: events("theirs"),
        ..creation(&theirs)
    };
    subject.store.create(other).await.unwrap();
    assert_eq!(subject.journal(&mine).await, "1:made 2:first");
    assert_eq!(subject.journal(&theirs).await, "1:theirs");
    let ten = ListQuery::newest(10);
    let list = |space| subject.store.list(space, &ten);
    assert_eq!(list("elsewhere").await.unwrap().sessions.len(), 1);
    assert_eq!(list("nowhere").await.unwrap().sessions.len(), 0);
    subject.store.delete(&theirs).await.unwrap();
    assert_eq!(subject.journal(&mine).await, "1:made 2:first");
}

pub async fn concurrent_creations_make_one_session(subject: &Subject) {
    let key = key("a");
    let attempt = |number: usize| {
        let create = Create {
            operation_id: format!("create-{number}"),
            ..creation_by(&key, &format!("owner-{number}"))
        };
        subject.store.create(create)
    };
    let created = futures::future::join_all((0..8).map(attempt)).await;
    let created: Vec<_> = created.into_iter().map(StoreResult::unwrap).collect();
    assert_eq!(
        created.iter().filter(|created| !created.duplicate).count(),
        1
    );
    assert_eq!(
        created
            .iter()
            .filter(|created| created.lease.is_some())
            .count(),
        1
    );
    assert_eq!(subject.journal(&key).await, "1:made 2:first");
}

pub async fn a_refused_creation_leaves_nothing(subject: &Subject) {
    let key = key("a");
    let large = Create {
        events: vec![vec![1; 65 * 1024 + 1].into()],
        ..creation(&key)
    };
    let refused = subject.store.create(large).await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::EventBytes, 65 * 1024))
    );
    let many = Create {
        events: vec![bytes("x"); 1025],
        ..creation(&key)
    };
    let refused = subject.store.create(many).await;
    assert_eq!(
        refused,
        Err(StoreError::limit(Limit::EventsPerCommit, 1024))
    );
    let missing = subject.store.read(&key, 0, 10).await;
    assert_eq!(missing, Err(StoreError::NotFound));
    subject.parked("a").await;
}

pub async fn sessions_are_listed_newest_first_in_pages(subject: &Subject) {
    for id in ["a", "b", "c", "d", "e"] {
        let mut create = creation(&key(id));
        create.header.title = format!("title of {id}");
        subject.store.create(create).await.unwrap();
        subject.pass(1).await;
    }
    let mut owner = subject.owned("f", "one").await;
    for title in ["early", "länger als vorher", "late"] {
        let mut commit = owner.next("x");
        commit.header.status = SessionStatus::Waiting;
        commit.header.title = title.to_owned();
        owner.make(commit).await.unwrap();
    }

    let (mut query, mut pages) = (ListQuery::newest(2), Vec::new());
    loop {
        let page = subject.store.list(SPACE, &query).await.unwrap();
        let ids = page.sessions.iter().map(|entry| entry.session.as_str());
        pages.push(ids.collect::<Vec<_>>().join(""));
        query.from = page.next;
        if query.from.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["fe", "dc", "ba"]);
    let page = subject
        .store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap();
    let (newest, oldest) = (&page.sessions[0], &page.sessions[5]);
    assert_eq!(
        (newest.status, newest.last_seq),
        (SessionStatus::Waiting, 5)
    );
    assert_eq!((oldest.status, oldest.last_seq), (SessionStatus::Idle, 2));
    assert_eq!((&*newest.title, &*oldest.title), ("late", "title of a"));
    assert!(oldest.created_unix_ms < newest.created_unix_ms);
    assert_eq!(oldest.created_unix_ms, oldest.updated_unix_ms);
    assert!(
        page.sessions
            .iter()
            .all(|entry| entry.quarantined.is_none())
    );
}
