//! What stands around a kind, and the names of questions.

use super::{attempt, call, number, seq, text, time};
use cairn_engine::event::{Event, EventKind};
use cairn_engine::pending::{PendingId, Subject};
use cairn_engine::principal::{Authentication, Principal};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn event(kind: impl Strategy<Value = EventKind>) -> impl Strategy<Value = Event> {
    (time(), seq(), option::of(principal()), kind).prop_map(|(at, answers, principal, kind)| {
        Event {
            at,
            answers,
            principal,
            kind,
        }
    })
}

fn principal() -> impl Strategy<Value = Principal> {
    let authentications = vec![
        Authentication::Process,
        Authentication::Socket,
        Authentication::Token,
        Authentication::Anonymous,
        Authentication::Service,
    ];
    (text(), text(), select(authentications)).prop_map(|(subject, namespace, authentication)| {
        Principal {
            subject,
            namespace,
            authentication,
        }
    })
}

/// An approval and a question of the model are asked once.
pub(super) fn pending() -> impl Strategy<Value = PendingId> {
    let once = prop_oneof![
        call().prop_map(Subject::Approval),
        call().prop_map(Subject::Question),
    ];
    let again = prop_oneof![
        call().prop_map(Subject::Call),
        number().prop_map(|run| Subject::Budget { run }),
        number().prop_map(|run| Subject::Hook { run }),
        (number(), number()).prop_map(|(run, proposal)| Subject::Plan { run, proposal }),
        attempt().prop_map(Subject::Context),
        attempt().prop_map(Subject::Shortage),
    ];
    let time = prop_oneof![Just(1), 1..=u32::MAX];
    prop_oneof![
        once.prop_map(|subject| PendingId { subject, time: 1 }),
        (again, time).prop_map(|(subject, time)| PendingId { subject, time }),
    ]
}
