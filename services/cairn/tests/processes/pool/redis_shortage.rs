//! Shortages over Redis with two orchestrators and two executors, each a process.

use crate::support::CAIRN;
use crate::support::pool::{
    Api, Desk, SOON, TIMES, Waits, begin_executor, fleet, is_short, logged, member, needing,
    parked, tool, waits_for_capability,
};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::{Cluster, Site, TestStore, eventually};
use std::time::Instant;

/// Only "one" may use the tool that gives "looking". Each has one slot.
const EXECUTORS: [(&str, &str); 2] = [("one", "seek"), ("two", "list_files")];

fn site(desk: &Desk) -> Site {
    let site = Site::new(CAIRN);
    desk.add_to(&site);
    let settings = format!(
        "{}\n[capabilities]\nlooking = [\"seek\"]\n\n[executor]\nmax_attempts = 1\n",
        tool("seek")
    );
    site.append("cairn.toml", &settings);
    site
}

/// The API of each orchestrator.
fn apis(cluster: &Cluster<'_>) -> [Api; 2] {
    let addresses = cluster.addresses("orchestrator");
    [0, 1].map(|number| Api::at(&addresses[number]))
}

/// Kills all processes and starts them again.
fn kill_all(cluster: &mut Cluster<'_>) {
    let members = cluster.members();
    members.iter().for_each(|it| cluster.kill_member(*it));
    let others = |service: &str| !["executor", "orchestrator"].contains(&service);
    let first: Vec<_> = members.iter().filter(|it| others(it.service)).collect();
    first.iter().for_each(|it| cluster.begin(**it));
    for (number, (name, tools)) in EXECUTORS.iter().enumerate() {
        begin_executor(cluster, number, name, tools);
    }
    for number in 0..2 {
        cluster.begin(member("orchestrator", number));
    }
    members.iter().for_each(|it| cluster.wait(*it));
}

/// P6, busy: the session of another orchestrator waits too, and both orchestrators and both executors log STOP with
/// the capability and what is free of how many. When the slot is free, the waiting session continues.
#[test]
fn a_busy_capability_is_reported_to_all_executors_over_redis() {
    let (desk, store) = (Desk::open(), TestStore::redis());
    let site = site(&desk);
    let variables = [&store.variables()[..], &[TIMES]].concat();
    let cluster = fleet(&site, &variables, &EXECUTORS, 2);
    let [first, second] = apis(&cluster);
    first.pool_until("both executors", |pool| pool.resources.len() == 2);
    second.pool_until("both executors", |pool| pool.resources.len() == 2);
    first.start("holder", needing("holder", &["looking"]));
    let held = desk.next();
    second.start("waiter", needing("waiter", &["looking"]));
    second.until("waiter", 0, is_short);
    let of_executors = ["executor.log", "executor-1.log", "orchestrator-1.log"];
    let check = |message: &str| {
        for log in of_executors {
            let lines = eventually(format!("{log}: {message}"), || {
                let lines = logged(&site, log, message, "looking");
                (!lines.is_empty()).then_some(lines)
            });
            assert_eq!(lines.len(), 1, "{log}: {lines:?}");
            let is_free = message != "capability short";
            let counts = (&lines[0]["available"], &lines[0]["total"]);
            assert!(is_free || counts == (&0.into(), &1.into()), "{lines:?}");
        }
    };
    check("capability short");
    // One that needs something else has the other executor meanwhile.
    second.start("other", needing("other", &[]));
    let other = desk.next();
    assert_eq!(other.title(), "other");
    other.done();
    held.done();
    let question = desk.next();
    assert_eq!(question.title(), "waiter");
    question.done();
    let waits = Waits::checked(&second.until_end("waiter"));
    assert_eq!((waits.busy, waits.none, waits.placed), (1, 0, 1));
    check("capability no longer short");
}

/// The parked sessions, each with what it waits for, the longest waiting first.
fn names(api: &Api, memory: &str) -> Vec<(String, Vec<String>)> {
    let waiting = parked(api, memory).into_iter();
    let names = waiting.map(|it| {
        let session = it.session.expect("a session").session;
        (session, it.waits_for)
    });
    names.collect()
}

/// A session was told once that there is no resource, and then got the one that was registered.
fn check_woken(events: &[(u64, wire::Event)]) {
    let waits = Waits::checked(events);
    assert_eq!((waits.none, waits.found, waits.placed), (1, 1, 1));
    let placed = events.iter().filter_map(|(_, event)| match &event.kind {
        Some(Kind::AttemptPlaced(placed)) => Some(&placed.resources),
        _ => None,
    });
    let placed: Vec<_> = placed.collect();
    assert_eq!(placed.len(), 1, "{placed:?}");
    assert_eq!(*placed[0], ["two"]);
}

/// P6, none, and lost: the step of an executor that is killed for good waits in its place, parked sessions of one
/// orchestrator survive kill -9 of everything, and a registration at the other orchestrator wakes them, the oldest
/// first.
#[test]
fn sessions_that_wait_survive_kills_and_are_woken_by_the_other_orchestrator_over_redis() {
    let (desk, store) = (Desk::open(), TestStore::redis());
    let site = site(&desk);
    let variables = [&store.variables()[..], &[TIMES]].concat();
    let mut cluster = fleet(&site, &variables, &EXECUTORS, 2);
    let [first, second] = apis(&cluster);
    first.pool_until("both executors", |pool| pool.resources.len() == 2);
    first.start("lost", needing("lost", &["looking"]));
    // Dropped early, its stream would be cut, and the model asked again.
    let _asked = desk.next();
    cluster.kill_member(member("executor", 0));
    first.until("lost", 0, waits_for_capability);
    let memory = cluster.address("memory");
    for session in ["early", "late"] {
        first.start(session, needing(session, &["gpu"]));
        first.until(session, 0, waits_for_capability);
    }
    let wanted = [("lost", "looking"), ("early", "gpu"), ("late", "gpu")];
    let wanted = wanted.map(|(session, need)| (session.to_owned(), vec![need.to_owned()]));
    eventually("all three are parked", || {
        (names(&first, &memory) == wanted).then_some(())
    });

    drop((first, second));
    kill_all(&mut cluster);
    let [first, second] = apis(&cluster);
    // The executor is back, and so is the step that it lost.
    let lost = desk.next();
    assert_eq!(lost.title(), "lost");
    lost.done();
    first.until_end("lost");
    assert_eq!(names(&first, &memory), wanted[1..], "they still wait");

    second.put("two", "gpu", &["gpu"], 1);
    let began = Instant::now();
    let early = desk.next();
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
    assert_eq!(early.title(), "early");
    early.done();
    let late = desk.next();
    assert_eq!(late.title(), "late");
    late.done();
    for session in ["early", "late"] {
        check_woken(&second.until_end(session));
    }
    let waits = Waits::checked(&first.until_end("lost"));
    assert_eq!((waits.none, waits.found), (1, 1), "{waits:?}");
}
