//! A failover that loses acknowledged writes, seen from above the store: who watches and who asks is
//! told, an operator sees it, no call with side effects is repeated in silence, and what somebody lets
//! go on continues.

use super::{CAIRN, PATIENCE, client, logs};
use crate::support::Client;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use cairn_testkit::{Cluster, Output, Site, TestStore, eventually};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use tonic::Streaming;

/// A tool that says that it began, and ends when it is let.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits."
argv = ["sh", "-c", "name=$(cut -d '\"' -f 4); : >began-$name; until [ -e open-$name ] || [ ! -e began-$name ]; do sleep 0.02; done"]
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

/// A session of which something is lost. In a cluster the other one is with the same master.
const SESSION: &str = "default/work";

/// The five processes over masters with replicas.
struct World<'a> {
    site: &'a Site,
    cluster: Cluster<'a>,
    store: TestStore,
}

impl World<'_> {
    /// Starts a run of these tools in a session of this name.
    fn begin(&self, session: &str, tools: &[(&str, &str)]) -> Child {
        let steps = tools.iter();
        let steps = steps.map(|(tool, what)| json!({"tool": tool, "arguments": {"what": what}}));
        let plan = format!("{session}.json");
        let steps = json!({"steps": steps.collect::<Vec<_>>()});
        self.site.write(&plan, &steps.to_string());
        let url = self.cluster.url();
        let run = ["run", "--session", session, "--plan", &plan];
        let mut run = self
            .site
            .command(&[&run, &["--server", &*url][..]].concat());
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped());
        run.spawn().expect("the program can be started")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let url = self.cluster.url();
        self.site.run(&[arguments, &["--server", &url]].concat())
    }

    fn done(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output
    }

    fn client(&self) -> Client {
        client(&self.cluster)
    }

    fn wait_for_file(&self, name: &str) {
        let report = std::fmt::from_fn(|f| write!(f, "{name}\n{}", logs(self.site)));
        eventually(report, || self.site.read(name));
    }

    /// How often `record` was called for this.
    fn recorded(&self, what: &str) -> usize {
        self.site.ledger().times(&format!(r#"{{"what":"{what}"}}"#))
    }

    /// What the list says of a session: its status, and why it is quarantined.
    fn listed(&self, session: &str) -> (Value, Value) {
        let listed = self.done(&["sessions", "--json"]).out;
        let lines = listed
            .lines()
            .map(|line| -> Value { serde_json::from_str(line).expect("a line of JSON") });
        let mut lines = lines.filter(|listed| listed["id"] == session);
        let listed = lines.next().expect("the session");
        (
            listed["status"].clone(),
            listed["quarantine_reason"].clone(),
        )
    }

    /// The events of a session after this one.
    async fn watch(&self, session: &str, after_seq: u64) -> Result<Watch, RpcError> {
        let request = pb::WatchSessionRequest {
            session: session.to_owned(),
            after_seq,
            ..pb::WatchSessionRequest::default()
        };
        let events = self.client().watch_session(request).await?.into_inner();
        Ok(Watch { events, seen: 0 })
    }
}

/// A client that watches a session.
struct Watch {
    events: Streaming<pb::WatchSessionResponse>,
    /// The number of the last event that came.
    seen: u64,
}

impl Watch {
    /// The next event, or why there is none.
    async fn next(&mut self) -> Result<Kind, RpcError> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.events.message()).await;
            let message = message.expect("something in time")?;
            let message = message.expect("the session is there");
            if let Some(event) = message.event {
                self.seen = message.seq;
                return Ok(event.kind.expect("a kind"));
            }
        }
    }

    async fn until(&mut self, is_wanted: impl Fn(&Kind) -> bool) {
        while !is_wanted(&self.next().await.expect("an event")) {}
    }

    /// Why there is nothing more.
    async fn end(&mut self) -> RpcError {
        loop {
            if let Err(error) = self.next().await {
                return error;
            }
        }
    }
}

/// Whether that is the start of the step after the call with side effects.
fn is_third_step(kind: &Kind) -> bool {
    let Kind::StepStarted(started) = kind else {
        return false;
    };
    started.attempt.as_ref().is_some_and(|it| it.step == 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lost_writes_is_reported_to_everybody_and_nothing_is_repeated() {
    is_reported_to_everybody(TestStore::sentinel()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_in_a_cluster_that_lost_writes_is_reported_to_everybody() {
    is_reported_to_everybody(TestStore::cluster_with_replicas()).await;
}

async fn is_reported_to_everybody(store: TestStore) {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    let mut world = World {
        cluster: Cluster::start(&site, &store.variables()),
        site: &site,
        store,
    };
    let untouched = world.begin("untouched", &[("record", "before")]);
    let untouched = untouched.wait_with_output().expect("its end");
    assert!(untouched.status.success(), "{untouched:?}");
    let at_work = [("gate", "one"), ("record", "paid"), ("gate", "two")];
    let at_work = world.begin("work", &at_work);
    let paused = world.begin("paused", &[("gate", "three"), ("record", "late")]);
    world.wait_for_file("began-one");
    world.wait_for_file("began-three");
    let mut of_work = world.watch("work", 0).await.expect("a watch");
    let mut of_paused = world.watch("paused", 0).await.expect("a watch");

    // From here on everything that is acknowledged is lost.
    world.store.wait_until_replicated();
    world.store.cut_off_replica(SESSION);
    site.write("open-one", "");
    world.done(&["pause", "paused"]);
    let is_paused = |kind: &Kind| matches!(kind, Kind::RunPaused(_));
    of_work.until(is_third_step).await;
    of_paused.until(is_paused).await;
    let paused = paused.wait_with_output().expect("its end");
    assert_eq!(paused.status.code(), Some(3), "{paused:?}");
    world.store.kill_master(SESSION);
    world.store.wait_until_promoted(SESSION);

    for watch in [&mut of_work, &mut of_paused] {
        let reported = watch.end().await;
        assert_eq!(reported.reason_name(), "WENT_BACK", "{reported}");
        assert_eq!(reported.kind(), ErrorKind::DataLoss, "{reported}");
    }
    check_command_is_reported(at_work);
    world.check_clients_are_reported("work", of_work.seen).await;
    world
        .check_clients_are_reported("paused", of_paused.seen)
        .await;
    world.check_an_operator_sees_it();
    assert_eq!((world.recorded("paid"), world.recorded("late")), (1, 0));

    // What nothing was lost of is as before, and what is new continues.
    assert_eq!(world.listed("untouched"), (json!("idle"), Value::Null));
    let other = world.begin("other", &[("record", "after")]);
    let other = other.wait_with_output().expect("its end");
    assert!(other.status.success(), "{other:?}");

    for (session, gate) in [("work", "open-two"), ("paused", "open-three")] {
        world.let_go_on(session, gate);
        // What was asked meanwhile has been kept, and is answered.
        let answer = world.resume(session).await;
        assert_eq!(answer.reason_name(), "RUN_NOT_PAUSED", "{answer}");
    }
    // What the store had forgotten is made again, as was said; the pause is forgotten, too.
    let recorded = ["before", "after", "paid", "late"].map(|what| world.recorded(what));
    assert_eq!(recorded, [1, 1, 2, 1]);
}

/// The owner may learn of the loss, and end, just while somebody asks: that is told once.
fn is_found_just_now(reported: &RpcError) -> bool {
    reported.reason_name() == "WENT_BACK" && reported.kind() == ErrorKind::DataLoss
}

/// The command that began the run in the session `work` ends with what is to be done.
fn check_command_is_reported(run: Child) {
    let ended = run.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("lost acknowledged writes"), "{said}");
    assert!(said.contains("resume work --accept-loss"), "{said}");
}

/// Memory dies with the master, and with it what it remembers, and leases end before the store is back.
/// Then only the process knows that owned the session.
#[tokio::test(flavor = "multi_thread")]
async fn who_owned_a_session_knows_of_a_loss_that_memory_did_not_survive() {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    let store = TestStore::sentinel();
    let mut world = World {
        cluster: Cluster::start(&site, &store.variables()),
        site: &site,
        store,
    };
    let at_work = [("gate", "one"), ("record", "paid"), ("gate", "two")];
    let run = world.begin("work", &at_work);
    world.wait_for_file("began-one");
    world.store.wait_until_replicated();
    world.store.cut_off_replica(SESSION);
    site.write("open-one", "");
    world.wait_for_file("began-two");
    assert_eq!(world.recorded("paid"), 1);
    world.cluster.kill("memory");
    world.store.kill_master(SESSION);
    world.store.wait_until_promoted(SESSION);
    world.cluster.start_again("memory");
    site.write("open-two", "");
    let report = std::fmt::from_fn(|f| f.write_str(&logs(&site)));
    let listed = eventually(report, || {
        let listed = world.listed("work");
        (listed.0 == "quarantined" || listed.0 == "idle").then_some(listed)
    });
    let paid = world.recorded("paid");
    let aside = (json!("quarantined"), json!("writes_lost"));
    assert_eq!((listed, paid), (aside, 1));
    // Its watch broke with memory, and it may have been told or not.
    let ended = run.wait_with_output().expect("its end");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    world.let_go_on("work", "open-two");
    assert_eq!(world.recorded("paid"), 2);
}

impl World<'_> {
    /// Whoever asks for something of the session is told, wherever its cursor is, and nothing comes of
    /// it.
    async fn check_clients_are_reported(&self, session: &str, seen: u64) {
        let beyond = match self.watch(session, seen).await {
            Ok(mut watch) => watch.end().await,
            Err(error) => error,
        };
        assert_eq!(beyond.reason_name(), "WENT_BACK", "{beyond}");
        assert_eq!(beyond.kind(), ErrorKind::OutOfRange, "{beyond}");
        let mut aside = self.watch_whole(session, seen).await;
        if is_found_just_now(&aside) {
            aside = self.watch_whole(session, seen).await;
        }
        let mut refused = self.resume(session).await;
        if is_found_just_now(&refused) {
            refused = self.resume(session).await;
        }
        for error in [aside, refused] {
            assert_eq!(error.reason_name(), "SESSION_QUARANTINED", "{error}");
            assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{error}");
            assert_eq!(error.metadata("why"), Some("writes_lost"), "{error}");
        }
        let release = pb::ReleaseQuarantineRequest {
            session: session.to_owned(),
            accept_loss: false,
        };
        let refused = self.client().release_quarantine(release).await;
        let refused = RpcError::from(refused.expect_err("nobody has accepted the loss"));
        assert_eq!(refused.reason_name(), "WRITES_LOST", "{refused}");
    }

    /// Why a watch of all that is left of a session ends, which is less than was seen.
    async fn watch_whole(&self, session: &str, seen: u64) -> RpcError {
        let mut whole = self.watch(session, 0).await.expect("a watch");
        let why = whole.end().await;
        assert!((2..seen).contains(&whole.seen), "{} of {seen}", whole.seen);
        why
    }

    /// Asks that a run continues that is not paused, or of whose pause the store knows nothing more.
    async fn resume(&self, session: &str) -> RpcError {
        let request = pb::ResumeRunRequest {
            session: session.to_owned(),
            request_id: "resume".to_owned(),
            ..pb::ResumeRunRequest::default()
        };
        let refused = self.client().resume_run(request).await;
        RpcError::from(refused.expect_err("it cannot be done"))
    }

    fn check_an_operator_sees_it(&self) {
        for session in ["work", "paused"] {
            let listed = self.listed(session);
            assert_eq!(listed, (json!("quarantined"), json!("writes_lost")));
            let shown = self.done(&["show", session]).out;
            assert!(shown.contains("lost acknowledged writes"), "{shown}");
            let resume = format!("resume {session} --accept-loss");
            assert!(shown.contains(&resume), "{shown}");
        }
        let memory = self.cluster.address("memory");
        let doctor = self.site.run(&["doctor", "--json", "--server", &memory]);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        assert!(doctor.out.contains("store degraded"), "{doctor:?}");
        let log = self.site.read("memory.log").expect("its log");
        for session in ["default/work", "default/paused"] {
            assert!(log.contains(session), "{log}");
        }
        assert!(
            log.contains("acknowledged writes of a session are lost"),
            "{log}"
        );
        assert!(!log.contains("default/untouched"), "{log}");
    }

    /// An operator takes the loss, and the run comes to its end.
    fn let_go_on(&self, session: &str, gate: &str) {
        let refused = self.run(&["resume", session]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains("made again"), "{refused:?}");
        let copied = self.run(&["fork", session]);
        assert_eq!(copied.code, Some(1), "{copied:?}");
        assert!(copied.err.contains("add --accept-loss"), "{copied:?}");
        self.site.write(gate, "");
        self.done(&["resume", session, "--accept-loss"]);
        assert_eq!(self.listed(session), (json!("idle"), Value::Null));
    }
}
