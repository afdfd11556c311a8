//! Shortages of one process over SQLite: what is reported, what is written, and what ends them.

use super::{LOG, place, serve};
use crate::support::pool::{
    Desk, SOON, Waits, is_end, is_short, logged, needing, tool, waits_for_capability,
};
use cairn_proto::api::grant_tool_request::To;
use cairn_proto::api::revoke_tool_request::Of;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::{Site, eventually};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::{CapabilityShort, MissingCapability, ShortageKind, WaitReason};

/// One executor with one slot.
const ONE_SLOT: &str = "\n[executor]\nname = \"one\"\nmax_attempts = 1\n";
/// That nothing is written shows over time alone: several times the one after which STOP is reported.
const QUIET: Duration = Duration::from_millis(700);
/// A session that is woken too early asks its model within this time.
const WOKEN: Duration = Duration::from_millis(300);

/// What the last of these events reports as missing.
fn short(events: &[(u64, wire::Event)]) -> &CapabilityShort {
    let last = events.last().and_then(|(_, event)| event.kind.as_ref());
    let Some(Kind::CapabilityShort(short)) = last else {
        panic!("{last:?}");
    };
    short
}

fn missing(capability: &str, available: u32, total: u32, tools: &[&str]) -> MissingCapability {
    MissingCapability {
        capability: capability.to_owned(),
        level: 0,
        available,
        total,
        tools: tools.iter().map(|&it| it.to_owned()).collect(),
    }
}

/// How many commits the store made.
fn commits(site: &Site) -> usize {
    site.read("commits").unwrap_or_default().lines().count()
}

/// P6, busy: a session whose capability is taken is told STOP once, in its events and in the log with what is free
/// and how many there are. Then nothing is written until the slot is free, and it continues. One that is cancelled
/// meanwhile ends, and takes no slot.
#[test]
fn a_busy_capability_is_reported_once_and_nothing_is_written_until_it_is_free() {
    let desk = Desk::open();
    let mut place = place(&desk, ONE_SLOT);
    let count = format!("count:{}", place.site.path().join("commits").display());
    let api = serve(&mut place, &[("CAIRN_FAIL_COMMIT", &count)]);
    api.start("holder", needing("holder", &["file_ops"]));
    let held = desk.next();
    api.start("waiter", needing("waiter", &["file_ops"]));
    let events = api.until("waiter", 0, is_short);
    let report = short(&events);
    assert_eq!(report.kind(), ShortageKind::Busy);
    let wanted = missing("file_ops", 0, 1, &["read_file", "write_file"]);
    assert_eq!(report.missing, [wanted]);
    api.start("cancelled", needing("cancelled", &["file_ops"]));
    api.until("cancelled", 0, is_short);
    check_log(&place.site, "capability short");
    let pool = api.pool();
    let row = pool.capabilities.iter().find(|it| it.name == "file_ops");
    let row = row.expect("a capability");
    assert_eq!((row.available, row.total, row.waiting), (0, 1, 2));

    let before = commits(&place.site);
    sleep(QUIET);
    assert_eq!(commits(&place.site), before, "something was written");
    api.cancel("cancelled");
    let cancelled = api.until_end("cancelled");
    assert_eq!(Waits::checked(&cancelled).busy, 1);
    assert!(desk.within(WOKEN).is_none(), "two have the one slot");

    held.done();
    let question = desk.next();
    assert_eq!(question.title(), "waiter");
    question.done();
    let events = api.until_end("waiter");
    let waits = Waits::checked(&events);
    assert_eq!((waits.busy, waits.none, waits.placed), (1, 0, 1));
    assert_eq!(waits.while_full, 0, "{events:#?}");
    let waited = Duration::from_millis(waits.waited_ms[0]);
    assert!(waited >= QUIET, "{waited:?}");
    check_log(&place.site, "capability no longer short");
}

/// The orchestrator's line and the executor's are in one log here.
fn check_log(site: &Site, message: &str) {
    let lines = eventually(message, || {
        let lines = logged(site, LOG, message, "file_ops");
        (lines.len() >= 2).then_some(lines)
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    if message == "capability short" {
        for line in lines {
            assert_eq!((&line["available"], &line["total"]), (&0.into(), &1.into()));
            assert_eq!(
                (&line["state"], &line["level"]),
                (&"busy".into(), &"WARN".into())
            );
        }
    }
}

/// P6, none: sessions whose capability no resource has wait, say for what, and survive kill -9. A registration wakes
/// the oldest, as many as there are slots, and the next one when a slot is free. A cancel ends the wait.
#[test]
fn a_missing_capability_parks_sessions_until_a_registration_wakes_the_oldest() {
    let desk = Desk::open();
    let mut place = place(&desk, "");
    let api = serve(&mut place, &[]);
    let sessions = ["first", "second", "third", "cancelled"];
    for session in sessions {
        api.start(session, needing(session, &["gpu"]));
        let events = api.until(session, 0, waits_for_capability);
        let is_none = |(_, event): &(u64, wire::Event)| match &event.kind {
            Some(Kind::CapabilityShort(short)) => short.kind() == ShortageKind::None,
            _ => false,
        };
        let place = events.iter().position(is_none).expect("a report");
        assert_eq!(
            short(&events[..=place]).missing,
            [missing("gpu", 0, 0, &[])]
        );
        assert_eq!(api.pending(session)[0].reason(), WaitReason::Capability);
    }
    let shown = place.site.run(&["pending", "first"]);
    assert!(shown.out.contains("gpu"), "{shown:?}");
    api.cancel("cancelled");
    let cancelled = Waits::checked(&api.until_end("cancelled"));
    assert_eq!(
        (cancelled.none, cancelled.found, cancelled.placed),
        (1, 0, 0)
    );

    place.kill_server();
    let api = serve(&mut place, &[]);
    api.put("gpu-1", "gpu", &["gpu"], 2);
    let began = Instant::now();
    let mut questions = [desk.next(), desk.next()];
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
    questions.sort_by_key(|it| it.step.clone());
    let [first, second] = questions;
    assert_eq!((first.title(), second.title()), ("first", "second"));
    assert!(desk.within(WOKEN).is_none(), "three have two slots");
    first.done();
    let third = desk.next();
    assert_eq!(third.title(), "third");
    third.done();
    second.done();
    for session in ["first", "second", "third"] {
        let waits = Waits::checked(&api.until_end(session));
        let counts = (waits.none, waits.found, waits.placed);
        assert_eq!(counts, (1, 1, 1), "{session}: {waits:?}");
    }
}

/// P6, lost: a running step whose executor loses the capability stops and waits, says so once, and continues when it
/// is granted again. A step that needs nothing goes on beside it.
#[test]
fn a_step_whose_executor_loses_its_capability_waits_until_it_is_back() {
    let desk = Desk::open();
    let settings = format!(
        "\n[executor]\nname = \"one\"\n{}\n[capabilities]\nlooking = [\"seek\"]\n",
        tool("seek")
    );
    let mut place = place(&desk, &settings);
    let api = serve(&mut place, &[]);
    api.start("needs", needing("needs", &["looking"]));
    let lost = desk.next();
    api.start("other", needing("other", &[]));
    let other = desk.next();
    let executor = || "one".to_owned();
    api.revoke("seek", Of::Executor(executor()));
    let events = api.until("needs", 0, is_short);
    assert_eq!(short(&events).kind(), ShortageKind::None);
    assert_eq!(
        short(&events).missing,
        [missing("looking", 0, 0, &["seek"])]
    );
    // The stream of the attempt has ended, so nothing takes its answer.
    lost.done();
    other.done();
    api.until("other", 0, is_end);
    api.grant("seek", To::Executor(executor()));
    let again = desk.next();
    assert_eq!(again.title(), "needs");
    again.done();
    let events = api.until_end("needs");
    let waits = Waits::checked(&events);
    assert_eq!((waits.none, waits.found, waits.placed), (1, 1, 2));
}
