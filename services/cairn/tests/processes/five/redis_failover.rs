//! The master of the store is killed in the middle of a run, when its replica has everything: the
//! replica continues, and nobody can tell from the journal.

use super::{PATIENCE, client, exported, logs, plan, site_with_lease, step, undisturbed};
use crate::support::watcher::Watcher;
use cairn_proto::event as wire;
use cairn_testkit::{Cluster, Journal, Site, TestStore, eventually_async};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Leases outlast the failover: whoever owns the session then has to be able to go on.
const LEASE: &str = "20s";
/// Between two looks at the files of a tool.
const LOOK: Duration = Duration::from_millis(5);

/// A call with side effects that is made at once, and ends when it is let.
const HELD: &str = r#"
[[tools.commands]]
name = "held"
description = "Writes a line into the ledger, and waits."
argv = ["sh", "-c", ". ./record.sh >said; : >began; until [ -e open ] || [ ! -e began ]; do sleep 0.02; done; cat said"]
effect = "effectful"
time_limit_ms = 30000
env = ["LEDGER"]
parameters = { type = "object" }
"#;

fn site() -> Site {
    let site = site_with_lease(LEASE);
    site.append("cairn.toml", HELD);
    site
}

/// Calls of every effect, one that is held, and others after it.
fn run() -> wire::StartRun {
    let mut run = plan(6);
    let steps = &mut run.plan.as_mut().expect("a plan").steps;
    steps.insert(8, step("held", r#"{"what":"held"}"#.to_owned()));
    run
}

/// How many events there are when the call that is held begins.
fn before_held(reference: &Journal) -> usize {
    let intended = reference.of_kind("call_intended").into_iter();
    let step = |event: &Value| event["call"]["attempt"]["step"].as_u64();
    let mut intended = intended.filter(|event| step(event) == Some(9));
    let held = intended.next().expect("the call that is held");
    usize::try_from(held["seq"].as_u64().expect("a number")).expect("a short journal")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_at_the_replica_and_is_like_any_other() {
    continues_at_the_replica(TestStore::sentinel()).await;
}

/// Its session is with one of the masters, which is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_at_the_replica_in_a_cluster() {
    continues_at_the_replica(TestStore::cluster_with_replicas()).await;
}

async fn continues_at_the_replica(mut store: TestStore) {
    let quiet = site();
    quiet.write("open", "");
    let reference = undisturbed(&quiet, run()).await;

    let site = site();
    let cluster = Cluster::start(&site, &store.variables());
    let mut watcher = Watcher::of(run());
    let held = before_held(&reference);
    let quietly = watcher.until(client(&cluster), &site, &reference, held);
    quietly.await.expect("nothing disturbs it yet");
    eventually_async("the call begins", async || site.read("began")).await;
    // Nothing of the run is written before the call ends.
    let session = format!("default/{}", watcher.session);
    store.wait_until_replicated();
    store.kill_master(&session);
    // The result comes while there is nobody who could store it.
    site.write("open", "");
    let mut breaks = Vec::new();
    let began = Instant::now();
    while !watcher.has_ended {
        let further = watcher.go_on_with(client(&cluster), &site, &reference);
        let further = tokio::time::timeout(PATIENCE, further).await;
        breaks.extend(further.ok().and_then(Result::err));
        let last = breaks.last();
        let late = began.elapsed() > PATIENCE;
        assert!(!late, "nothing continues: {last:?}\n{}", logs(&site));
        tokio::time::sleep(LOOK).await;
    }
    store.wait_until_promoted(&session);

    let journal = exported(&site, &cluster, &watcher.session);
    journal.check();
    watcher.check(&journal, "after a failover");
    journal.check_like(&reference);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 7, "{uses:?}");
    assert!(uses.values().all(|&times| times == 1), "{uses:?}");
    let continued = journal.of_kind("attempt_continued").len();
    println!("{} broken watches, {continued} continued", breaks.len());
    check_nothing_is_lost(&site, &cluster);
}

fn check_nothing_is_lost(site: &Site, cluster: &Cluster<'_>) {
    let sessions = site.run(&["sessions", "--json", "--server", &cluster.url()]);
    let listed: Value = serde_json::from_str(sessions.out.trim()).expect("one session");
    assert_eq!(listed["status"], "idle", "{listed}");
    assert_eq!(listed["quarantine_reason"], Value::Null, "{listed}");
    let memory = cluster.address("memory");
    let doctor = site.run(&["doctor", "--json", "--server", &memory]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    let log = site.read("memory.log").expect("its log");
    assert!(!log.contains("acknowledged writes"), "{log}");
}
