//! Programs as tools whose service is killed or frozen: they do not outlive it beyond their limits,
//! and what a person is told of a call in doubt goes by that.

use crate::support::CAIRN;
use cairn_testkit::site::Running;
use cairn_testkit::{Cluster, Site, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::File;

/// Programs that hold a lock, they and what they have started, for as long as they live, which is
/// long; and one that ends by itself. One can be waited for, and the other cannot be.
const TOOLS: &str = r#"
[[tools.commands]]
name = "patient"
description = "Lasts."
argv = ["sh", "-c", "exec 9>held; flock -s 9; (sleep 1000 & sleep 1000) & echo x >began; wait"]
confine = "none"
time_limit_ms = 600000
parameters = { type = "object" }

[[tools.commands]]
name = "limited"
description = "Lasts, and may not."
argv = ["sh", "-c", "exec 9>held; flock -s 9; (sleep 1000 & sleep 1000) & echo x >began; wait"]
confine = "none"
time_limit_ms = 2000
parameters = { type = "object" }

[[tools.commands]]
name = "fails"
description = "Fails."
argv = ["sh", "-c", "echo what went wrong >&2; exit 3"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "dies"
description = "Dies."
argv = ["sh", "-c", "kill -TERM $$"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "segv"
description = "Dies."
argv = ["sh", "-c", "kill -SEGV $$"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "pipe"
description = "Dies."
argv = ["sh", "-c", "kill -PIPE $$"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "leads"
description = "Tells all of its group to stop but itself, and then everybody else above."
argv = ["sh", "-c", "sleep 1000 & trap '' TERM; kill -TERM -$$; wait; kill -TERM $PPID; sleep 0.2; echo ok"]
confine = "none"
time_limit_ms = 10000
parameters = { type = "object" }

[[tools.commands]]
name = "leaves"
description = "Ends, and leaves something behind."
argv = ["sh", "-c", "exec 9>held; flock -s 9; sleep 1000 & echo x >began; sleep 1"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }

[[tools.commands]]
name = "absent"
description = "Is not there."
argv = ["/nowhere/program"]
confine = "none"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", TOOLS);
    site
}

/// Has a tool called, and waits until its program has begun.
fn begin(site: &Site, cluster: &Cluster<'_>, tool: &str) -> Running {
    let plan = json!({"steps": [{"tool": tool, "arguments": {}}]});
    site.write("plan.json", &plan.to_string());
    let arguments = ["run", "--plan", "plan.json", "--server", &cluster.url()];
    let run = site.start(&arguments, &[]);
    eventually("the program begins", || site.read("began"));
    run
}

/// Waits until neither the program nor what it has started lives.
fn wait_until_gone(site: &Site) {
    let held = File::open(site.path().join("held")).expect("the lock");
    eventually("the program ends with its service", || held.try_lock().ok());
}

#[test]
fn a_program_dies_with_its_service() {
    let site = site();
    let mut cluster = Cluster::start(&site, &[]);
    let _run = begin(&site, &cluster, "patient");
    cluster.kill("tools");
    wait_until_gone(&site);
}

/// The service can do nothing while it is frozen, and a person may have settled the call when it can.
#[test]
fn a_program_ends_in_time_while_its_service_is_frozen() {
    is_gone_while_its_service_is_frozen("limited");
}

#[test]
fn what_a_program_leaves_behind_ends_with_it_while_its_service_is_frozen() {
    is_gone_while_its_service_is_frozen("leaves");
}

fn is_gone_while_its_service_is_frozen(tool: &str) {
    let site = site();
    let cluster = Cluster::start(&site, &[]);
    let _run = begin(&site, &cluster, tool);
    let tools = cluster.process_id("tools").expect("a process");
    let tools = Pid::from_raw(tools.cast_signed()).expect("its id");
    kill_process(tools, Signal::STOP).expect("it is frozen");
    wait_until_gone(&site);
    kill_process(tools, Signal::CONT).expect("it continues");
}

/// Whoever is between the service and a program is not seen.
#[test]
fn what_became_of_a_program_is_reported_as_it_was() {
    let site = site();
    for (tool, expected) in [
        (
            "fails",
            r"tool 'fails' failed with exit status 3\nthe end of its standard error:\nwhat went wrong\nexit status 3",
        ),
        ("dies", "tool 'dies' failed with signal 15"),
        ("limited", "took longer than its limit of 2000 ms"),
        (
            "absent",
            r"tool 'absent' failed with exit status 127\nthe end of its standard error:\ncould not be started: No such file or directory",
        ),
        ("segv", "tool 'segv' failed with signal 11"),
        ("pipe", "tool 'pipe' failed with signal 13"),
    ] {
        let plan = json!({"steps": [{"tool": tool, "arguments": {}}]});
        site.write("plan.json", &plan.to_string());
        let ran = site.run(&["run", "--plan", "plan.json", "--session", tool, "--json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.out.contains(expected), "{tool}: {ran:?}");
    }
}

/// It leads a group in which nobody else is, and whoever supervises it does not end before it.
#[test]
fn signals_are_the_programs_own_affair() {
    let site = site();
    let plan = json!({"steps": [{"tool": "leads", "arguments": {}}]});
    site.write("plan.json", &plan.to_string());
    let ran = site.run(&["run", "--plan", "plan.json", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains(r#""output":"ok\n""#), "{ran:?}");
}
