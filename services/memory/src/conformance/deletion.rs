//! Deleting sessions.

use super::support::*;
use crate::port::{
    BlobUse, Checkpoint, Commit, End, ListQuery, MemoryWrite, OwnedSession, ReleaseRequest,
    RenewRequest, SessionKey, StoreError,
};

fn set() -> MemoryWrite {
    MemoryWrite::set("k", "1")
}

/// A session that has something of everything.
async fn full(subject: &Subject, id: &str) -> (Owner, String) {
    let mut owner = subject.owned(id, "one").await;
    let commit = Commit {
        checkpoint: Some(Checkpoint {
            through_seq: 2,
            state: bytes("state"),
        }),
        ..owner.next("x y")
    };
    owner.make(commit).await.unwrap();
    subject.append(&owner.key, "c").await;
    subject.remember(&owner.key, set()).await;
    let digest = subject
        .store
        .put_blob(&owner.key, bytes("blob"), BlobUse::Event)
        .await
        .unwrap();
    (owner, digest)
}

/// Whatever is asked of the session is answered that it was deleted.
async fn assert_gone(subject: &Subject, key: &SessionKey, digest: &str) {
    let store = &subject.store;
    let gone = StoreError::Terminal(End::Deleted);
    assert_eq!(store.read(key, 0, 10).await.err(), Some(gone.clone()));
    assert_eq!(store.checkpoint(key, 10).await.err(), Some(gone.clone()));
    assert_eq!(store.get_blob(key, digest).await.err(), Some(gone.clone()));
    assert_eq!(store.get_memory(key, "k").await.err(), Some(gone.clone()));
    assert_eq!(store.list_memory(key).await.err(), Some(gone));
}

pub async fn deleting_removes_everything(subject: &Subject) {
    let (owner, digest) = full(subject, "a").await;
    assert_eq!(subject.store.delete(&owner.key).await, Ok(true));
    assert_gone(subject, &owner.key, &digest).await;
    let page = subject
        .store
        .list(SPACE, &ListQuery::newest(10))
        .await
        .unwrap();
    assert!(page.sessions.is_empty());
}

pub async fn late_writes_to_a_deleted_session_are_terminal(subject: &Subject) {
    let (owner, digest) = full(subject, "a").await;
    let last = owner.next("late");
    subject.store.delete(&owner.key).await.unwrap();
    let (store, key, gone) = (
        &subject.store,
        &owner.key,
        StoreError::Terminal(End::Deleted),
    );
    assert_eq!(owner.error(last).await, gone);
    assert_eq!(store.create(creation(key)).await.err(), Some(gone.clone()));
    assert_eq!(
        store.create(creation_by(key, "one")).await.err(),
        Some(gone.clone())
    );
    assert_eq!(
        store.append_command(command(key, "c")).await.err(),
        Some(gone.clone())
    );
    assert_eq!(
        store.append_command(command(key, "d")).await.err(),
        Some(gone.clone())
    );
    assert_eq!(
        store.write_memory(key, set(), &client(key)).await.err(),
        Some(gone.clone())
    );
    assert_eq!(
        store
            .put_blob(key, bytes("blob"), BlobUse::Event)
            .await
            .err(),
        Some(gone.clone())
    );
    assert_eq!(
        store.release_quarantine(key, false).await.err(),
        Some(gone.clone())
    );
    let release = ReleaseRequest {
        key: key.clone(),
        owner: "one".to_owned(),
        epoch: 1,
        delay_ms: 0,
    };
    assert_eq!(store.release(release).await.err(), Some(gone));
    assert_gone(subject, key, &digest).await;
}

pub async fn deleting_again_does_nothing(subject: &Subject) {
    let key = subject.parked("a").await;
    assert_eq!(subject.store.delete(&key).await, Ok(true));
    assert_eq!(subject.store.delete(&key).await, Ok(false));
    let missing = subject.store.delete(&super::support::key("unknown")).await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn a_deleted_session_is_not_claimed_or_renewed(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let queued = subject.parked("b").await;
    subject.append(&queued, "wake").await;
    subject.store.delete(&owner.key).await.unwrap();
    subject.store.delete(&queued).await.unwrap();
    subject.outlive_leases().await;
    assert_eq!(subject.claimed("two").await, [""; 0]);
    let renew = RenewRequest {
        owner: "one".to_owned(),
        sessions: vec![OwnedSession {
            key: owner.key.clone(),
            epoch: 1,
        }],
        lease_ms: LEASE,
    };
    assert_eq!(subject.store.renew(renew).await.unwrap().lost, [owner.key]);
}

pub async fn deleting_touches_no_other_session(subject: &Subject) {
    let (before, _) = full(subject, "a").await;
    let (middle, _) = full(subject, "b").await;
    let (after, _) = full(subject, "c").await;
    subject.store.delete(&middle.key).await.unwrap();
    for mut owner in [before, after] {
        let page = subject.store.read(&owner.key, 0, 10).await.unwrap();
        assert_eq!(page.events.len(), 6);
        let checkpoint = subject.store.checkpoint(&owner.key, 9).await.unwrap();
        assert_eq!(checkpoint.unwrap().state, bytes("state"));
        assert_eq!(subject.memory(&owner.key).await, "k=1");
        assert!(subject.append(&owner.key, "c").await.duplicate);
        assert_eq!(owner.commit("z").await.others.len(), 2);
    }
}
