//! The five services as five processes: the same journal as in one, and every one of them may be
//! killed, and so may the servers of their store. A failover goes unnoticed, or if it has lost something
//! is told.
//!
//! The store is a file, Redis or a cluster. Each process, and Redis or a server of the cluster, is
//! killed twice during a run. A run continues unharmed through a failover of Sentinel or of a
//! cluster. A failover that loses writes is reported to every process above the store, also if
//! memory dies too. What a person allows at one tools process holds at all.

mod mcp;
mod redis_allowances;
mod redis_failover;
mod redis_late_call;
mod redis_lost_writes;

use crate::support::{self, CAIRN, watcher};
use cairn_proto::event as wire;
use cairn_testkit::cluster::SERVICES;
use cairn_testkit::{Cluster, Journal, Site, TestStore};
use std::time::Duration;
use support::{Client, chain, connect};
use watcher::Watcher;

/// A run that gets no further for so long never will.
const PATIENCE: Duration = Duration::from_secs(45);
const GOAL: &str = "Which files under docs mention Redis, and what do they say about it?";

fn step(tool: &str, arguments: String) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments,
        }),
        ..wire::PlanStep::default()
    }
}

/// Tool steps of every effect, and one for the model after them.
fn plan(rounds: u32) -> wire::StartRun {
    let round = |number| {
        [
            step("list_files", r#"{"path":"docs"}"#.to_owned()),
            step("record", format!(r#"{{"what":"{number}"}}"#)),
            step(
                "write_file",
                format!(r#"{{"content":"note","path":"cairn-out/note-{number}.md"}}"#),
            ),
        ]
    };
    chain((0..rounds).flat_map(round).collect())
}

fn client(cluster: &Cluster<'_>) -> Client {
    connect(&cluster.url())
}

/// The journal of a command that was run with the same request in one process or in five.
fn journal(site: &Site, server: &[&str], arguments: &[&str]) -> Journal {
    let run = ["run", "--json", "--request-id", "r-1"];
    let output = site.run(&[&run, server, arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let session = site.run(&[&["sessions", "--json"], server].concat()).out;
    let session: serde_json::Value = serde_json::from_str(session.trim()).expect("one session");
    let id = session["id"].as_str().expect("an id");
    let exported = site.run(&[&["export", id], server].concat());
    assert_eq!(exported.code, Some(0), "{exported:?}");
    Journal::read(&exported.out)
}

/// A recorded model: it plans two steps, and in each it has tools called.
const PLAYED: &str = r#"{"match": {"contains": "Record two lines."}, "reply": {"text": "{\"steps\": [{\"title\": \"First\", \"description\": \"Look and record.\"}, {\"title\": \"Second\", \"description\": \"Record again.\"}]}"}}
{"match": {"step": "First"}, "replies": [{"text": "I look.", "tool_calls": [{"name": "list_files", "arguments": {"path": "docs"}}, {"name": "record", "arguments": {"what": "one"}}]}, {"tool_calls": [{"name": "scratchpad", "arguments": {"text": "two files"}}, {"name": "step", "arguments": {"complete": true, "summary": "One line."}}]}]}
{"match": {"step": "Second"}, "replies": [{"tool_calls": [{"name": "record", "arguments": {"what": "two"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Two lines."}}]}]}
"#;

#[test]
fn five_processes_write_the_journal_of_one() {
    compare_with_one_process(&TestStore::file());
}

/// The same requests in one process, over a file, and in five over this store.
fn compare_with_one_process(store: &TestStore) {
    let plan = r#"{"order": "graph", "steps": [
        {"tool": "list_files", "arguments": {"path": "docs"}},
        {"tool": "record", "arguments": {"what": "one"}},
        {"title": "First", "description": "Look and record."}]}"#;
    let cases: [&[&str]; 3] = [
        &["--model", "offline", GOAL],
        &["--model", "played", "Record two lines."],
        &[
            "--model",
            "played",
            "--plan",
            "plan.json",
            "--max-parallel-steps",
            "1",
        ],
    ];
    for (number, arguments) in cases.into_iter().enumerate() {
        let sites = [Site::new(CAIRN), Site::new(CAIRN)];
        for site in &sites {
            site.write("plan.json", plan);
            site.write("played.jsonl", PLAYED);
            let played = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";
            site.append("cairn.toml", played);
        }
        let [one, five] = &sites;
        let reference = journal(one, &[], arguments);
        // The requests have one name, and so each has a store of its own.
        let prefix = format!("case-{number}");
        let of_case = [("CAIRN_STORE__REDIS__PREFIX", prefix.as_str())];
        let cluster = Cluster::start(five, &[&store.variables()[..], &of_case].concat());
        let mine = journal(five, &["--server", &cluster.url()], arguments);
        mine.check();
        mine.check_like(&reference);
        println!("{} events alike: {arguments:?}", mine.0.len());
        // Whose model writes a report, writes the same one.
        let file = "cairn-out/report-docs-redis.md";
        let report = five.read(file);
        assert_eq!(report.is_some(), arguments.contains(&GOAL));
        assert!(report.is_none() || report == one.read(file));
    }
}

/// A site whose leases outlast a slow machine's pauses.
fn patient_site() -> Site {
    site_with_lease("3s")
}

fn site_with_lease(lease: &str) -> Site {
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let lease = format!("lease = \"{lease}\"");
    site.write("cairn.toml", &settings.replace(r#"lease = "1s""#, &lease));
    site
}

/// One process after the other is killed and started again while a run continues.
#[tokio::test(flavor = "multi_thread")]
async fn each_process_may_be_killed_while_a_run_continues() {
    kill_each(TestStore::file()).await;
}

/// Each of the five processes is killed twice over this store, and after each round of kills a server
/// of the store.
async fn kill_each(mut store: TestStore) {
    const ROUNDS: u32 = 20;
    const KILLS: usize = 2 * SERVICES.len();
    let reference = undisturbed(&patient_site(), plan(ROUNDS)).await;
    let site = patient_site();
    let mut cluster = Cluster::start(&site, &store.variables());
    let mut watcher = Watcher::of(plan(ROUNDS));
    let (mut breaks, mut kills) = (0, 0);
    while !watcher.has_ended {
        // A little further each time; what has been seen by then is kept.
        let enough = watcher.events.len() + 7;
        let further = watcher.until(client(&cluster), &site, &reference, enough);
        let further = tokio::time::timeout(PATIENCE, further).await;
        let further = further.unwrap_or_else(|_| panic!("nothing continues:\n{}", logs(&site)));
        breaks += usize::from(further.is_err());
        if kills < KILLS && !watcher.has_ended {
            let victim = SERVICES[kills % SERVICES.len()];
            cluster.kill(victim);
            cluster.start_again(victim);
            kills += 1;
            if kills % SERVICES.len() == 0 {
                store.restart_a_server();
            }
        }
    }
    let journal = exported(&site, &cluster, &watcher.session);
    journal.check();
    watcher.check(&journal, "after kills");
    journal.check_like(&reference);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), ROUNDS as usize, "{uses:?}");
    let once = uses.values().all(|&times| times == 1);
    assert!(once, "a call happened twice: {uses:?}");
    let doubts = journal.of_kind("call_in_doubt").len();
    let continued = journal.of_kind("attempt_continued").len();
    println!("{kills} kills, {breaks} broken watches, {continued} continued, {doubts} in doubt");
    assert_eq!(
        kills, KILLS,
        "the run was over before each was killed twice"
    );
}

/// The journal of a run that nobody disturbs, over a file.
async fn undisturbed(site: &Site, run: wire::StartRun) -> Journal {
    let mut watcher = Watcher::of(run);
    let cluster = Cluster::start(site, &[]);
    let nothing = Journal(Vec::new());
    let ended = watcher.go_on_with(client(&cluster), site, &nothing);
    ended.await.expect("a run");
    exported(site, &cluster, &watcher.session)
}

fn exported(site: &Site, cluster: &Cluster<'_>, session: &str) -> Journal {
    let output = site.run(&["export", session, "--server", &cluster.url()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    Journal::read(&output.out)
}

/// What the processes said.
fn logs(site: &Site) -> String {
    let read = |service: &str| {
        let log = site.read(&format!("{service}.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.len().saturating_sub(15);
        format!("== {service}\n{}\n", lines[last..].join("\n"))
    };
    SERVICES.map(read).concat()
}

/// The same over servers of Redis, which are killed too.
mod redis {
    use super::{TestStore, compare_with_one_process, kill_each};

    #[test]
    fn five_processes_over_redis_write_the_journal_of_one() {
        compare_with_one_process(&TestStore::redis());
    }

    #[test]
    fn five_processes_over_a_cluster_write_the_journal_of_one() {
        compare_with_one_process(&TestStore::cluster());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_process_and_redis_may_be_killed_while_a_run_continues() {
        kill_each(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_process_and_a_server_of_a_cluster_may_be_killed_while_a_run_continues() {
        kill_each(TestStore::cluster()).await;
    }
}
