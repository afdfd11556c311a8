use super::*;
use crate::dispatch::queue::{Asked, Described, MemberId, Reported, Wants};
use cairn_engine::pool::Capabilities;
use cairn_rpc::Namespace;
use std::sync::Arc;

fn missing(capability: &str) -> Vec<Missing> {
    vec![Missing {
        capability: capability.to_owned(),
        total: 1,
        ..Missing::default()
    }]
}

fn kinds(notices: &[NotifyShortageRequest]) -> Vec<ShortageKind> {
    notices.iter().map(NotifyShortageRequest::kind).collect()
}

fn asked(need: &Need) -> Asked<Instant> {
    Asked {
        namespace: Namespace::default(),
        session: Arc::from("s"),
        since: Instant::now(),
        wants: Wants {
            need: Arc::new(need.clone()),
            level: 1,
        },
    }
}

#[tokio::test]
async fn a_capability_that_is_taken_is_short_as_long_as_attempts_wait_for_it() {
    let mut queue = Queue::default();
    let mut shortages = Shortages::default();
    let need = Need::of(["gpu"]);
    let (one, other) = (asked(&need), asked(&need));
    let tickets = (queue.wait(&one), queue.wait(&other));
    let notices = shortages.begin(&need, &missing("gpu"), false);
    assert_eq!(kinds(&notices), [ShortageKind::Busy]);
    assert!(shortages.begin(&need, &missing("gpu"), false).is_empty());
    queue.leave(&one, tickets.0);
    assert!(shortages.end_over(&queue).is_empty());
    queue.leave(&other, tickets.1);
    let notices = shortages.end_over(&queue);
    assert_eq!(kinds(&notices), [ShortageKind::Unspecified]);
    assert!(shortages.end_over(&queue).is_empty());
}

/// Its attempts leave the queue, and the sessions may sleep.
#[tokio::test]
async fn a_capability_that_nothing_has_is_short_until_something_has_it() {
    let mut queue = Queue::default();
    let mut shortages = Shortages::default();
    let need = Need::of(["gpu"]);
    shortages.begin(&need, &missing("gpu"), false);
    let notices = shortages.begin(&need, &missing("gpu"), true);
    assert_eq!(kinds(&notices), [ShortageKind::None]);
    shortages.begin_lack(&need);
    assert!(shortages.end_over(&queue).is_empty());
    let id = MemberId::from("a");
    queue.members.report(&id, Reported::default());
    let described = Described {
        id: id.clone(),
        capabilities: Arc::new(Capabilities::from([("gpu".to_owned(), 1)])),
        ..Described::default()
    };
    queue.members.describe(&id, described);
    let notices = shortages.end_over(&queue);
    assert_eq!(kinds(&notices), [ShortageKind::Unspecified]);
}

/// The next attempt that lacks it is reported again.
#[test]
fn a_capability_that_nothing_has_is_short_as_long_as_attempts_wait_for_it() {
    let queue = Queue::default();
    let mut shortages = Shortages::default();
    let need = Need::of(["gpu"]);
    for _ in 0..2 {
        shortages.begin_lack(&need);
        shortages.begin_lack(&need);
        let notices = shortages.begin(&need, &missing("gpu"), true);
        assert_eq!(kinds(&notices), [ShortageKind::None]);
        assert_eq!(shortages.lacking().collect::<Vec<_>>(), [(&need, 2)]);
        shortages.end_lack(&need);
        assert!(shortages.end_over(&queue).is_empty());
        shortages.end_lack(&need);
        let notices = shortages.end_over(&queue);
        assert_eq!(kinds(&notices), [ShortageKind::Unspecified]);
        assert_eq!(shortages.lacking().count(), 0);
    }
}

#[test]
fn a_need_that_is_short_beside_too_many_others_is_not_reported() {
    let mut shortages = Shortages::default();
    for number in 0..MOST {
        let name = format!("gpu-{number}");
        let notices = shortages.begin(&Need::of([name.as_str()]), &missing(&name), true);
        assert_eq!(kinds(&notices), [ShortageKind::None]);
    }
    let beyond = Need::of(["gpu"]);
    assert!(shortages.begin(&beyond, &missing("gpu"), true).is_empty());
    let known = Need::of(["gpu-0"]);
    let notices = shortages.begin(&known, &missing("gpu-0"), false);
    assert_eq!(kinds(&notices), [ShortageKind::Busy]);
}

#[tokio::test]
async fn a_capability_that_two_needs_lack_is_short_until_both_are_over() {
    let mut queue = Queue::default();
    let mut shortages = Shortages::default();
    let (alone, both) = (Need::of(["gpu"]), Need::of(["gpu", "eu"]));
    let (one, other) = (asked(&alone), asked(&both));
    let tickets = (queue.wait(&one), queue.wait(&other));
    shortages.begin(&alone, &missing("gpu"), false);
    shortages.begin(&both, &missing("gpu"), false);
    queue.leave(&one, tickets.0);
    assert!(shortages.end_over(&queue).is_empty());
    queue.leave(&other, tickets.1);
    let notices = shortages.end_over(&queue);
    assert_eq!(kinds(&notices), [ShortageKind::Unspecified]);
}

#[test]
fn a_tool_that_no_executor_may_use_is_named_by_itself() {
    let tool = Missing {
        tools: vec!["shell_exec".to_owned()],
        ..Missing::default()
    };
    assert_eq!(name_of(&tool), "shell_exec");
    assert_eq!(name_of(&missing("gpu")[0]), "gpu");
}
