//! Kills of every process at random moments while sessions wait for capabilities, over Redis.

use crate::support::CAIRN;
use crate::support::pool::{
    Api, TIMES, Waits, begin_executor, fleet, is_end, needing, tool, waits_for_capability,
};
use crate::support::served::{add_model, done, title};
use cairn_testkit::cluster::{Member, SERVICES};
use cairn_testkit::model_server::{Answer, Late};
use cairn_testkit::{Cluster, ModelServer, Site, TestStore};
use serde_json::Value;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Only "one" may use the tool that gives "looking".
const EXECUTORS: [(&str, &str); 2] = [("one", "seek"), ("two", "list_files")];
/// Sessions that wait for the one slot that gives "looking".
const BUSY: usize = 6;
/// Sessions whose capability no resource has until the end.
const NONE: usize = 2;
/// How long a step has its slot: most sessions are told STOP.
const HELD: Duration = Duration::from_millis(250);
/// Kills of each service.
const ROUNDS: usize = 2;
/// A kill comes at any moment within this time after the one before.
const MOMENT_MS: u64 = 150;

/// Ends each step after a time.
fn plays(body: &Value) -> Answer {
    let is_step = title(body).is_some();
    match done("done") {
        Answer::Whole(_, body) if is_step => Answer::Late(Late {
            after: HELD,
            body,
            open: Arc::new(()),
        }),
        other => other,
    }
}

/// Kills a process and starts it again in its place.
fn kill(cluster: &mut Cluster<'_>, victim: Member) {
    cluster.kill_member(victim);
    match victim.service {
        "executor" => {
            let (name, tools) = EXECUTORS[victim.number];
            begin_executor(cluster, victim.number, name, tools);
        }
        _ => cluster.begin(victim),
    }
    cluster.wait(victim);
}

/// P6 under kill -9 of memory, tools, executors, the planner and orchestrators at random moments: each shortage is
/// reported once and ends once for each wait, and every session ends.
#[test]
fn each_shortage_is_reported_once_and_ends_once_under_kills_over_redis() {
    let model = ModelServer::start(plays);
    let (site, store) = (Site::new(CAIRN), TestStore::redis());
    add_model(&site, &model);
    let settings = format!(
        "{}\n[capabilities]\nlooking = [\"seek\"]\n\n[executor]\nmax_attempts = 1\n",
        tool("seek")
    );
    site.append("cairn.toml", &settings);
    let variables = [&store.variables()[..], &[TIMES]].concat();
    let mut cluster = fleet(&site, &variables, &EXECUTORS, 2);
    let addresses = cluster.addresses("orchestrator");
    let apis = [0, 1].map(|number| Api::at(&addresses[number]));
    apis[0].pool_until("both executors", |pool| pool.resources.len() == 2);
    let busy: Vec<String> = (0..BUSY).map(|number| format!("busy-{number}")).collect();
    let none: Vec<String> = (0..NONE).map(|number| format!("none-{number}")).collect();
    for (number, session) in busy.iter().enumerate() {
        apis[number % 2].start(session, needing(session, &["looking"]));
    }
    for session in &none {
        apis[0].start(session, needing(session, &["gpu"]));
    }
    let seed = RandomState::new();
    for round in 0..ROUNDS * SERVICES.len() {
        sleep(Duration::from_millis(seed.hash_one(round) % MOMENT_MS));
        let members = cluster.members_of(SERVICES[round % SERVICES.len()]);
        let victim = members[(round / SERVICES.len()) % members.len()];
        kill(&mut cluster, victim);
    }
    for session in &none {
        apis[1].until(session, 0, waits_for_capability);
    }
    apis[1].pool_until("both executors", |pool| pool.resources.len() == 2);
    apis[1].put("two", "gpu", &["gpu"], 1);
    let waits = busy.iter().chain(&none).map(|session| {
        let events = apis[1].until(session, 0, is_end);
        Waits::checked(&events)
    });
    let waits: Vec<Waits> = waits.collect();
    let (of_busy, of_none) = waits.split_at(BUSY);
    let reported: usize = of_busy.iter().map(|it| it.busy + it.none).sum();
    println!("{reported} of {BUSY} sessions were told STOP, and {NONE} that there is none");
    assert!(reported >= BUSY / 2, "{of_busy:?}");
    for waits in of_none {
        assert_eq!((waits.none, waits.found), (1, 1), "{waits:?}");
    }
}
