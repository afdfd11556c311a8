//! Checkpoints and blobs.

use super::support::*;
use crate::port::{BlobUse, Checkpoint, Commit, Limit, SessionKey, StoreError};
use bytes::Bytes;

async fn keep(owner: &mut Owner, through_seq: u64, state: &str) {
    let commit = Commit {
        checkpoint: Some(Checkpoint {
            through_seq,
            state: bytes(state),
        }),
        ..owner.next("x")
    };
    owner.make(commit).await.unwrap();
}

async fn nearest(subject: &Subject, key: &SessionKey, seq: u64) -> Option<(u64, Bytes)> {
    let found = subject.store.checkpoint(key, seq).await.unwrap();
    found.map(|checkpoint| (checkpoint.through_seq, checkpoint.state))
}

pub async fn the_nearest_checkpoint_is_found(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    keep(&mut owner, 2, "two").await;
    keep(&mut owner, 3, "three").await;
    owner.commit("x y z").await;
    keep(&mut owner, 6, "six").await;
    let nearest = |seq| nearest(subject, &owner.key, seq);
    assert_eq!(nearest(1).await, None);
    assert_eq!(nearest(2).await, Some((2, bytes("two"))));
    assert_eq!(nearest(5).await, Some((3, bytes("three"))));
    assert_eq!(nearest(6).await, Some((6, bytes("six"))));
    assert_eq!(nearest(u64::MAX).await, Some((6, bytes("six"))));
}

pub async fn old_checkpoints_become_sparse(subject: &Subject) {
    const NEWEST: u64 = 101;
    let mut owner = subject.owned("a", "one").await;
    let mut neighbour = subject.owned("b", "one").await;
    keep(&mut neighbour, 2, "another session's").await;
    for seq in 2..=NEWEST {
        keep(&mut owner, seq, &seq.to_string()).await;
    }
    let (mut kept, mut seq) = (Vec::new(), u64::MAX);
    while let Some((found, state)) = nearest(subject, &owner.key, seq).await {
        assert_eq!(state, bytes(&found.to_string()), "each has its own state");
        kept.push(found);
        seq = found - 1;
    }
    assert_eq!(kept[..2], [NEWEST, NEWEST - 1]);
    assert!(kept.len() <= 16, "{kept:?}");
    for seq in 1..NEWEST {
        let start = kept.iter().find(|it| **it <= seq).copied().unwrap_or(0);
        let is_near = start == seq || NEWEST - start < 2 * (NEWEST - seq);
        assert!(is_near, "a read at {seq} starts at {start}: {kept:?}");
    }
    let other = nearest(subject, &neighbour.key, u64::MAX).await;
    assert_eq!(other, Some((2, bytes("another session's"))));
}

pub async fn there_may_be_no_checkpoint(subject: &Subject) {
    // Neighbours on both sides of the session have some.
    let mut before = subject.owned("a", "one").await;
    let owner = subject.owned("b", "one").await;
    let mut after = subject.owned("c", "one").await;
    keep(&mut before, 2, "before").await;
    keep(&mut after, 2, "after").await;
    assert_eq!(nearest(subject, &owner.key, u64::MAX).await, None);
    let missing = subject.store.checkpoint(&key("unknown"), 1).await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn a_checkpoint_may_be_replaced(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    keep(&mut owner, 2, "old").await;
    keep(&mut owner, 2, "new").await;
    assert_eq!(
        nearest(subject, &owner.key, 2).await,
        Some((2, bytes("new")))
    );
    let large = Commit {
        checkpoint: Some(Checkpoint {
            through_seq: 2,
            state: vec![1; (1 << 20) + 1].into(),
        }),
        ..owner.next("x")
    };
    let refused = StoreError::limit(Limit::CheckpointBytes, 1 << 20);
    assert_eq!(owner.error(large).await, refused);
}

pub async fn a_checkpoint_beyond_what_was_seen_is_a_conflict(subject: &Subject) {
    let owner = subject.owned("a", "one").await;
    let ahead = Commit {
        checkpoint: Some(Checkpoint {
            through_seq: 3,
            state: bytes("ahead"),
        }),
        ..owner.next("x")
    };
    assert_eq!(owner.error(ahead).await, StoreError::Conflict);
    let ahead = Commit {
        header: crate::port::Header {
            handled_through: 3,
            ..Default::default()
        },
        ..owner.next("x")
    };
    assert_eq!(owner.error(ahead).await, StoreError::Conflict);
}

pub async fn a_blob_comes_back(subject: &Subject) {
    let key = subject.parked("a").await;
    for size in [0, 1, 100_000] {
        let data = Bytes::from(vec![3; size]);
        let digest = subject
            .store
            .put_blob(&key, data.clone(), BlobUse::Event)
            .await
            .unwrap();
        assert_eq!(digest.len(), 64);
        assert_eq!(subject.store.get_blob(&key, &digest).await, Ok(data));
    }
    // The digest is SHA-256 in hexadecimal, which anybody can compute.
    let digest = subject
        .store
        .put_blob(&key, bytes("abc"), BlobUse::Event)
        .await
        .unwrap();
    assert_eq!(
        digest,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

pub async fn a_blob_may_be_put_again(subject: &Subject) {
    let key = subject.parked("a").await;
    let data = Bytes::from(vec![3; 200 << 10]);
    let first = subject
        .store
        .put_blob(&key, data.clone(), BlobUse::Event)
        .await
        .unwrap();
    for _ in 0..5 {
        let again = subject
            .store
            .put_blob(&key, data.clone(), BlobUse::Event)
            .await
            .unwrap();
        assert_eq!(again, first);
    }
}

pub async fn a_blob_belongs_to_one_session(subject: &Subject) {
    let (one, two) = (subject.parked("a").await, subject.parked("b").await);
    let digest = subject
        .store
        .put_blob(&one, bytes("secret"), BlobUse::Event)
        .await
        .unwrap();
    let missing = subject.store.get_blob(&two, &digest).await;
    assert_eq!(missing, Err(StoreError::NotFound));
    let missing = subject
        .store
        .put_blob(&key("unknown"), bytes("x"), BlobUse::Event)
        .await;
    assert_eq!(missing, Err(StoreError::NotFound));
}

pub async fn blobs_are_limited(subject: &Subject) {
    let key = subject.parked("a").await;
    let blob = |fill: u8, size| {
        subject
            .store
            .put_blob(&key, vec![fill; size].into(), BlobUse::Event)
    };
    let refused = StoreError::limit(Limit::BlobBytes, 256 << 10);
    assert_eq!(blob(1, (256 << 10) + 1).await, Err(refused));
    blob(1, 256 << 10).await.unwrap();
    blob(2, 256 << 10).await.unwrap();
    let refused = StoreError::limit(Limit::SessionBlobBytes, 512 << 10);
    assert_eq!(blob(3, 1).await, Err(refused));
    blob(2, 256 << 10).await.unwrap();
}
