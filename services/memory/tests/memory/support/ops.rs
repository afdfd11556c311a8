//! Random operations: fresh, repeated, stale and out of order.

use bytes::Bytes;
use cairn_memory::port::{End, Level, MemoryWrite, SessionKey};
use cairn_proto::event::{Blob, Event};
use proptest::prelude::*;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

pub(crate) const LEASE: u32 = 1000;
const OWNERS: [&str; 3] = ["local", "remote-1", "remote-2"];
pub(crate) const SESSIONS: u8 = 3;
pub(crate) const BLOBS: u8 = 3;

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create {
        session: u8,
        request: u8,
        owner: Option<u8>,
        command: bool,
    },
    Commit {
        session: u8,
        owner: u8,
        what: What,
        body: Body,
    },
    Append {
        session: u8,
        request: u8,
        digest: bool,
        /// Who is to take the lease.
        owner: Option<u8>,
        /// Only some of the owners can read the command.
        is_newer: bool,
    },
    Claim {
        owner: u8,
    },
    Renew {
        owner: u8,
    },
    Release {
        session: u8,
        owner: u8,
    },
    ReleaseQuarantine {
        session: u8,
    },
    Wake {
        session: u8,
    },
    WriteMemory {
        session: u8,
        change: u8,
    },
    Blob {
        session: u8,
        number: u8,
    },
    Fork {
        source: u8,
        child: u8,
        at: u8,
    },
    Delete {
        session: u8,
    },
    Idle {
        after: Option<u16>,
    },
    End {
        session: u8,
        is_current: bool,
        end: u8,
    },
    Pass {
        ms: u16,
    },
    Reopen,
}

/// Which transition an owner sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Next,
    Repeat,
    Older,
    WrongVersion,
    SeenLess,
    SeenMore,
}

#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) events: u8,
    pub(crate) memory: Vec<u8>,
    pub(crate) handles: bool,
    pub(crate) park: Option<Option<u16>>,
    pub(crate) no_progress: bool,
    /// The blobs that the first event lists.
    pub(crate) lists: Vec<u8>,
}

fn body() -> impl Strategy<Value = Body> {
    let park = prop_oneof![
        3 => Just(None),
        1 => Just(Some(None)),
        1 => (0..2000_u16).prop_map(|ms| Some(Some(ms))),
    ];
    let memory = proptest::collection::vec(any::<u8>(), 0..3);
    let lists = proptest::collection::vec(0..BLOBS, 0..3);
    (0..4_u8, memory, any::<bool>(), park, any::<bool>(), lists).prop_map(
        |(events, memory, handles, park, no_progress, lists)| Body {
            events,
            memory,
            handles,
            park,
            no_progress,
            lists,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS;
    let owner = 0..3_u8;
    let what = prop_oneof![
        8 => Just(What::Next),
        2 => Just(What::Repeat),
        1 => Just(What::Older),
        1 => Just(What::WrongVersion),
        1 => Just(What::SeenLess),
        1 => Just(What::SeenMore),
    ];
    prop_oneof![
        3 => (session.clone(), 0..2_u8, proptest::option::of(owner.clone()), any::<bool>()).prop_map(
            |(session, request, owner, command)| Op::Create { session, request, owner, command }
        ),
        12 => (session.clone(), owner.clone(), what, body()).prop_map(
            |(session, owner, what, body)| Op::Commit { session, owner, what, body }
        ),
        6 => (
            session.clone(),
            0..6_u8,
            proptest::bool::weighted(0.9),
            proptest::option::of(owner.clone()),
            proptest::bool::weighted(0.1),
        )
            .prop_map(|(session, request, digest, owner, is_newer)| Op::Append {
                session,
                request,
                digest,
                owner,
                is_newer,
            }),
        6 => owner.clone().prop_map(|owner| Op::Claim { owner }),
        2 => owner.clone().prop_map(|owner| Op::Renew { owner }),
        1 => (session.clone(), owner).prop_map(|(session, owner)| Op::Release { session, owner }),
        1 => session.clone().prop_map(|session| Op::ReleaseQuarantine { session }),
        3 => session.clone().prop_map(|session| Op::Wake { session }),
        2 => (session.clone(), any::<u8>()).prop_map(
            |(session, change)| Op::WriteMemory { session, change }
        ),
        2 => (session.clone(), 0..BLOBS).prop_map(|(session, number)| Op::Blob { session, number }),
        1 => (session.clone(), session.clone(), any::<u8>()).prop_map(
            |(source, child, at)| Op::Fork { source, child, at }
        ),
        1 => session.clone().prop_map(|session| Op::Delete { session }),
        4 => proptest::option::of(Just(700_u16)).prop_map(|after| Op::Idle { after }),
        1 => (session, proptest::bool::weighted(0.8), 0..2_u8).prop_map(
            |(session, is_current, end)| Op::End { session, is_current, end }
        ),
        5 => (0..1500_u16).prop_map(|ms| Op::Pass { ms }),
        1 => Just(Op::Reopen),
    ]
}

pub(crate) fn key(session: u8) -> SessionKey {
    SessionKey::new("space", format!("s{session}"))
}

/// The data of a blob.
pub(crate) fn blob(number: u8) -> Bytes {
    vec![number; 100 + usize::from(number)].into()
}

pub(crate) fn digest_of(data: &[u8]) -> String {
    cairn_engine::key::hex(&Sha256::digest(data))
}

/// An event that lists blobs.
pub(crate) fn listing(blobs: &[u8]) -> Bytes {
    let listed = |number: &u8| Blob {
        digest: digest_of(&blob(*number)),
        size: 100 + u32::from(*number),
    };
    let event = Event {
        at_unix_ms: 1,
        blobs: blobs.iter().map(listed).collect(),
        ..Default::default()
    };
    event.encode_to_vec().into()
}

pub(crate) fn ends() -> [End; 2] {
    [End::Expired, End::Archived]
}

pub(crate) fn name(owner: u8) -> String {
    OWNERS[usize::from(owner)].to_owned()
}

/// Two of the owners can read what is newer, and one cannot.
pub(crate) fn level(owner: u8) -> Level {
    needs(owner != 1)
}

/// What a session waits for after a transition. Every second transition repeats the one before.
pub(crate) fn waits_for(number: u64) -> Vec<String> {
    let all = ["gpu", "web_search>=5"].map(str::to_owned);
    let count = number / 2 % 3;
    all.into_iter()
        .zip(0..count)
        .map(|(need, _)| need)
        .collect()
}

pub(crate) fn needs(is_newer: bool) -> Level {
    Level::of_number(1 + u32::from(is_newer)).unwrap()
}

pub(crate) fn change(number: u8) -> MemoryWrite {
    let key = format!("k{}", number % 3);
    match number / 64 {
        0 => MemoryWrite::Clear,
        1 => MemoryWrite::Remove { key },
        _ => MemoryWrite::Set {
            key,
            value: number.to_string(),
            metadata: (0..number % 3)
                .map(|note| (format!("note {note}"), format!("of {number}")))
                .collect(),
            at_unix_ms: None,
        },
    }
}

/// Changes by an owner, which decided each of them a moment ago, or does not say when.
pub(crate) fn decided(numbers: &[u8], now: i64) -> Vec<MemoryWrite> {
    let decided = |&number: &u8| {
        let mut change = change(number);
        if let MemoryWrite::Set { at_unix_ms, .. } = &mut change {
            let ago = i64::from(number % 4) * 40;
            *at_unix_ms = Some(now - ago).filter(|_| ago > 0);
        }
        change
    };
    numbers.iter().map(decided).collect()
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(), 1..80)
}
