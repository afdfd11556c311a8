//! A server's tool behind five processes, of which one after the other is killed in the middle of the
//! tool's call, and in the middle of what it asks.

use super::site_with_lease;
use crate::support::mcp::{ALLOW, DEPLOY, RESTART, RUN, SERVER, effects, ended, go_on, pending};
use cairn_testkit::{Cluster, Site, eventually};
use std::time::{Duration, Instant};

/// Nothing that is waited for takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Those between which a call passes.
const VICTIMS: [&str; 3] = ["tools", "executor", "orchestrator"];

fn site(plan: &str) -> Site {
    let site = site_with_lease("1s");
    site.write("server.sh", SERVER);
    site.write("plan.json", plan);
    let server = "\n[mcp.servers.ops]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n\
                  protocol = \"2026-07-28\"\ntime_limit_ms = 2000\n";
    site.append("cairn.toml", &format!("{server}{ALLOW}"));
    site
}

/// Goes on until the run has ended, and says how often a person was asked what became of the call.
fn finish(site: &Site, server: &[&str]) -> usize {
    let began = Instant::now();
    loop {
        if let Some(journal) = ended(site, server) {
            journal.check();
            return journal.of_kind("call_in_doubt").len();
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", pending(site, server));
        go_on(site, server, &[]);
    }
}

#[test]
fn a_kill_in_the_middle_of_a_call_leaves_one_effect() {
    for victim in VICTIMS {
        let site = site(RESTART);
        site.write("hold", "");
        let mut cluster = Cluster::start(&site, &[]);
        let url = cluster.url();
        let server = ["--server", url.as_str()];
        let mut running = site.start(&[&RUN[..], &server].concat(), &[]);
        eventually("the call", || (!effects(&site).is_empty()).then_some(()));
        cluster.kill(victim);
        std::fs::remove_file(site.path().join("hold")).expect("the file is there");
        cluster.start_again(victim);
        running.kill();
        let url = cluster.url();
        let doubts = finish(&site, &["--server", &url]);
        println!("{victim}: {doubts} in doubt");
        assert_eq!(effects(&site).len(), 1, "{victim}");
        assert!(
            victim != "tools" || doubts == 1,
            "the server died with tools"
        );
    }
}

/// Both processes share what they were given; the first to come reaches the server, and the other never does.
const REACHED_BY_ONE: &str =
    "mkdir reached 2>/dev/null || { echo 'no way there' >&2; exit 1; }\nexec sh real.sh\n";

#[test]
fn a_server_that_one_of_two_processes_reaches_is_called_there() {
    let call = r#"{"tool": "ops__restart", "arguments": {}}"#;
    let plan = format!(r#"{{"steps": [{}]}}"#, [call; 6].join(","));
    let site = site(&plan);
    site.write("server.sh", REACHED_BY_ONE);
    site.write("real.sh", SERVER);
    let cluster = Cluster::several(&site, &[], [1, 2, 1, 1, 1]);
    let url = cluster.url();
    let server = ["--server", url.as_str()];
    let run = site.run(&[&RUN[..], &server].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    let journal = ended(&site, &server).expect("a run that ended");
    journal.check();
    assert_eq!(effects(&site).len(), 6);
    assert!(journal.of_kind("call_in_doubt").is_empty());
}

#[test]
fn a_kill_while_a_tool_asks_leaves_its_question() {
    for victim in VICTIMS {
        let site = site(DEPLOY);
        let mut cluster = Cluster::start(&site, &[]);
        let url = cluster.url();
        let waits = site.run(&[&RUN[..], &["--server", &url]].concat());
        assert_eq!(waits.code, Some(3), "{victim}: {waits:?}");
        cluster.kill(victim);
        cluster.start_again(victim);
        let url = cluster.url();
        let server = ["--server", url.as_str()];
        let asked = pending(&site, &server);
        assert_eq!(asked.len(), 1, "{victim}: {asked:?}");
        let question = asked[0]["question"].as_str().expect("a question");
        assert!(question.contains("Deploy to prod?"), "{question}");
        let doubts = finish(&site, &server);
        assert_eq!((effects(&site).len(), doubts), (1, 0), "{victim}");
    }
}
