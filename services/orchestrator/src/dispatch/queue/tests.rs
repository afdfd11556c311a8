use super::*;
use cairn_engine::pool::ResourceTools;
use std::collections::BTreeSet;

mod model;

fn space(name: &str) -> Namespace {
    name.parse().expect("a namespace")
}

/// For any executor.
fn no_need() -> Wants {
    level(1)
}

fn level(level: u32) -> Wants {
    Wants {
        need: Arc::default(),
        level,
    }
}

fn capabilities(texts: &[&str]) -> Wants {
    Wants {
        need: Arc::new(Need::of(texts.iter().copied())),
        level: 1,
    }
}

fn tool(name: &str) -> Wants {
    let need = Need {
        tool: Some(name.to_owned()),
        ..Need::default()
    };
    Wants {
        need: Arc::new(need),
        level: 1,
    }
}

fn asked(namespace: &str, session: &str, since: u32, wants: Wants) -> Asked<u32> {
    Asked {
        namespace: space(namespace),
        session: Arc::from(session),
        since,
        wants,
    }
}

/// An executor reports so many free slots.
fn report(queue: &mut Queue<u32>, id: &str, version: u64, free: u32) {
    let reported = Reported {
        version,
        slots: 8,
        free,
        level: 1,
        is_draining: false,
    };
    queue.members.report(&Arc::from(id), reported);
}

/// An executor has these capabilities, each at the level 1, and may use the tools of these patterns.
fn describe(queue: &mut Queue<u32>, id: &str, capabilities: &[&str], patterns: &[&str]) {
    let patterns = patterns.iter().map(|&pattern| pattern.to_owned());
    let tools = ResourceTools::new(patterns.collect(), BTreeSet::new(), BTreeSet::new());
    let described = Described {
        id: Arc::from(id),
        tools: Arc::new(tools),
        capabilities: leveled(capabilities, 1),
    };
    queue.members.describe(&Arc::from(id), described);
}

fn leveled(capabilities: &[&str], level: u32) -> Arc<BTreeMap<String, u32>> {
    let capabilities = capabilities.iter().map(|&name| (name.to_owned(), level));
    Arc::new(capabilities.collect())
}

fn register(queue: &mut Queue<u32>, id: &str, capabilities: &[&str], slots: u32) {
    let extra = Extra {
        slots,
        capabilities: leveled(capabilities, 1),
    };
    queue.members.set_extra(&Arc::from(id), Some(extra));
}

fn served(queue: &mut Queue<u32>) -> Vec<(u32, String)> {
    let served = std::iter::from_fn(|| queue.serve());
    served
        .map(|(ticket, reserved)| (ticket.since, reserved.member.to_string()))
        .collect()
}

fn on(since: u32, member: &str) -> (u32, String) {
    (since, member.to_owned())
}

#[test]
fn an_attempt_goes_to_the_executor_with_most_free_slots() {
    let mut queue = Queue::default();
    assert_eq!(queue.reserve(&no_need()), None);
    report(&mut queue, "a", 0, 1);
    report(&mut queue, "b", 0, 3);
    let all: Vec<_> = std::iter::from_fn(|| queue.reserve(&no_need())).collect();
    let ids: Vec<&str> = all.iter().map(|it| &*it.member).collect();
    assert_eq!(ids, ["b", "b", "b", "a"]);
    queue.members.begin(&all[0], 1);
    queue.members.release(&all[3]);
    let again = queue.reserve(&no_need()).expect("the slot was not used");
    assert_eq!(&*again.member, "a");
    assert_eq!(queue.reserve(&no_need()), None);
}

#[test]
fn namespaces_are_served_in_turn_and_so_are_the_sessions_of_each() {
    let mut queue = Queue::default();
    for since in [1, 2, 3] {
        queue.wait(&asked("many", "large", since, no_need()));
    }
    queue.wait(&asked("many", "small", 4, no_need()));
    let few = asked("few", "one", 5, no_need());
    let left = queue.wait(&few);
    queue.wait(&asked("few", "one", 6, no_need()));
    assert!(queue.leave(&few, left));
    assert!(!queue.leave(&few, left));
    report(&mut queue, "a", 0, 5);
    let order: Vec<u32> = served(&mut queue).into_iter().map(|it| it.0).collect();
    assert_eq!(order, [1, 6, 4, 2, 3]);
    assert_eq!(queue.waiting(), 0);
    assert_eq!(queue.needs().count(), 0);
}

/// It was refused elsewhere, and has not had its turn.
#[test]
fn an_attempt_that_waits_again_comes_before_those_that_came_since() {
    let mut queue = Queue::default();
    queue.wait(&asked("a", "new", 7, no_need()));
    queue.wait(&asked("a", "old", 3, no_need()));
    report(&mut queue, "a", 0, 1);
    assert_eq!(served(&mut queue), [on(3, "a")]);
}

#[test]
fn no_attempt_overtakes_those_that_can_be_served() {
    let mut queue = Queue::default();
    queue.wait(&asked("a", "s", 1, no_need()));
    report(&mut queue, "a", 0, 1);
    assert_eq!(queue.reserve(&no_need()), None);
    assert_eq!(served(&mut queue), [on(1, "a")]);
}

#[test]
fn an_attempt_waits_for_what_can_read_it_and_delays_no_other() {
    let mut queue = Queue::default();
    queue.members.set_tools_level(2);
    queue.wait(&asked("a", "s", 1, level(2)));
    queue.wait(&asked("a", "s", 2, no_need()));
    queue.wait(&asked("b", "s", 3, no_need()));
    report(&mut queue, "old", 0, 3);
    assert_eq!(served(&mut queue), [on(2, "old"), on(3, "old")]);
    assert!(queue.reserve(&no_need()).is_some());
    let new = Reported {
        free: 1,
        level: 2,
        ..Reported::default()
    };
    queue.members.report(&Arc::from("new"), new);
    assert_eq!(served(&mut queue), [on(1, "new")]);
    // Its tools are as old as others.
    queue.members.set_tools_level(1);
    queue.wait(&asked("a", "s", 4, level(2)));
    let more = Reported {
        version: 1,
        free: 2,
        ..new
    };
    queue.members.report(&Arc::from("new"), more);
    assert!(served(&mut queue).is_empty());
    queue.members.set_tools_level(2);
    assert_eq!(served(&mut queue), [on(4, "new")]);
}

#[test]
fn an_attempt_goes_to_an_executor_that_has_its_capabilities_and_may_use_its_tool() {
    let mut queue = Queue::default();
    for (id, free) in [("plain", 8), ("search", 2), ("files", 2)] {
        report(&mut queue, id, 0, free);
    }
    describe(&mut queue, "search", &["web_search"], &["web_*"]);
    describe(&mut queue, "files", &["file_ops"], &["read_file"]);
    describe(&mut queue, "plain", &[], &["none"]);
    queue.wait(&asked("a", "s", 1, capabilities(&["gpu"])));
    queue.wait(&asked("a", "s", 2, capabilities(&["web_search>=2"])));
    queue.wait(&asked(
        "a",
        "s",
        3,
        capabilities(&["file_ops", "web_search"]),
    ));
    queue.wait(&asked("a", "s", 4, capabilities(&["web_search"])));
    queue.wait(&asked("a", "s", 5, tool("read_file")));
    queue.wait(&asked("a", "s", 6, tool("write_file")));
    assert_eq!(served(&mut queue), [on(4, "search"), on(5, "files")]);
    assert_eq!(queue.waiting(), 4);
    let needed: BTreeSet<String> = queue.needs().map(|(need, _)| need.text()).collect();
    let expected = ["@write_file", "file_ops,web_search", "gpu", "web_search>=2"];
    assert_eq!(needed, BTreeSet::from(expected.map(str::to_owned)));
}

#[test]
fn a_registered_resource_gives_what_an_executor_lacks_and_gets_its_slot_back() {
    let mut queue = Queue::default();
    report(&mut queue, "a", 0, 8);
    register(&mut queue, "gpu-1", &["gpu", "cuda"], 1);
    register(&mut queue, "gpu-2", &["gpu"], 2);
    let gpu = capabilities(&["gpu"]);
    let first = queue.reserve(&gpu).expect("a slot");
    assert_eq!(first.extras, [Arc::from("gpu-2")], "it has most slots");
    // It has as many slots as the other one now, and comes later by its id.
    let second = queue.reserve(&gpu).expect("a slot");
    assert_eq!(second.extras, [Arc::from("gpu-2")]);
    let both = queue.reserve(&capabilities(&["cuda", "gpu"]));
    let both = both.expect("one slot gives both");
    assert_eq!(both.extras, [Arc::from("gpu-1")]);
    assert_eq!(queue.reserve(&gpu), None, "an executor alone is not enough");
    queue.members.begin(&first, 1);
    queue.members.begin(&second, 2);
    queue.members.end(&first);
    assert!(queue.reserve(&gpu).is_some(), "the attempt ended");
    queue.members.end_by_executor(&second);
    let again = queue.reserve(&gpu).expect("its executor ended it");
    queue.members.release(&again);
    assert!(queue.reserve(&gpu).is_some(), "it was not used");
    queue.members.release(&both);
    // Slots that are taken outlive the registration, and are not given again.
    queue.members.set_extra(&Arc::from("gpu-2"), None);
    assert!(queue.reserve(&gpu).is_some());
    assert_eq!(queue.reserve(&gpu), None);
    register(&mut queue, "gpu-2", &["gpu"], 2);
    assert_eq!(queue.members.free_of_extra("gpu-2"), 0);
}

#[test]
fn what_can_be_reached_is_told_from_what_is_lost_and_what_there_is_not() {
    let mut queue = Queue::<u32>::default();
    let presence = |queue: &Queue<u32>, wants: &Wants| queue.members.presence(&wants.need);
    let (gpu, read) = (capabilities(&["gpu"]), tool("read_file"));
    // The first executor is waited for.
    assert_eq!(presence(&queue, &gpu), Presence::Absent);
    assert_eq!(presence(&queue, &no_need()), Presence::Reached);
    assert_eq!(presence(&queue, &read), Presence::Reached);
    report(&mut queue, "a", 0, 0);
    describe(&mut queue, "a", &["gpu"], &["read_*"]);
    assert_eq!(presence(&queue, &gpu), Presence::Reached, "it is busy");
    assert_eq!(presence(&queue, &tool("write_file")), Presence::Absent);
    assert!(queue.members.lose("a"));
    assert!(!queue.members.lose("a"), "that is known");
    assert_eq!(presence(&queue, &gpu), Presence::Lost);
    assert_eq!(presence(&queue, &read), Presence::Reached);
    assert_eq!(presence(&queue, &no_need()), Presence::Reached);
    queue.members.remove("a");
    assert_eq!(presence(&queue, &gpu), Presence::Absent);
}

#[test]
fn an_attempt_is_served_while_its_resources_have_what_it_needs() {
    let mut queue = Queue::default();
    report(&mut queue, "a", 0, 2);
    describe(&mut queue, "a", &["file_ops"], &[]);
    register(&mut queue, "gpu-1", &["gpu"], 1);
    let wants = capabilities(&["file_ops", "gpu"]);
    let held = queue.reserve(&wants).expect("a slot").held();
    let serves = |queue: &Queue<u32>| queue.members.still_serves(&held, &wants.need);
    assert!(serves(&queue));
    describe(&mut queue, "a", &[], &[]);
    assert!(!serves(&queue));
    describe(&mut queue, "a", &["file_ops"], &[]);
    register(&mut queue, "gpu-1", &["other"], 1);
    register(&mut queue, "gpu-2", &["gpu"], 1);
    assert!(!serves(&queue), "it has no slot of the other one");
    queue.members.remove("a");
    assert!(serves(&queue), "its stream ends by itself");
}

#[test]
fn slots_of_an_executor_that_is_lost_come_back_with_its_next_report() {
    let mut queue = Queue::default();
    report(&mut queue, "a", 7, 2);
    let reserved = queue.reserve(&no_need()).expect("a slot");
    queue.members.lose("a");
    assert_eq!(queue.reserve(&no_need()), None);
    queue.members.release(&reserved);
    // Another process, which begins to count anew.
    report(&mut queue, "a", 0, 2);
    assert!(queue.reserve(&no_need()).is_some() && queue.reserve(&no_need()).is_some());
    let drains = Reported {
        version: 1,
        is_draining: true,
        ..Reported::default()
    };
    queue.members.report(&Arc::from("a"), drains);
    assert!(queue.members.is_draining("a"));
    queue.members.remove("a");
    assert!(queue.members.is_draining("a"));
}

/// A slot of the process before is none of the one that has its address now.
#[test]
fn a_slot_of_an_executor_that_was_replaced_frees_nothing() {
    let mut queue = Queue::default();
    report(&mut queue, "a", 0, 1);
    let before = queue.reserve(&no_need()).expect("a slot");
    queue.members.remove("a");
    report(&mut queue, "a", 0, 1);
    assert!(queue.reserve(&no_need()).is_some());
    queue.members.release(&before);
    assert_eq!(queue.reserve(&no_need()), None);
    queue.members.end(&before);
    assert_eq!(queue.reserve(&no_need()), None);
}
