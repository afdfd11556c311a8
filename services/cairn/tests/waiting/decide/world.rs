//! A run with one call that has side effects and does not end, and a server that is killed in it.

use crate::support::CAIRN;
use crate::support::{Client, chain, connect};
use cairn::ui::event_json::event_json;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::site::Running;
use cairn_testkit::{Site, TestStore};
use std::fs::{self, File, OpenOptions};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

const TOOL: &str = r#"
[[tools.commands]]
name = "pay"
description = "Pays, and waits at a gate."
argv = ["sh", "pay.sh"]
effect = "effectful"
parameters = { type = "object" }
"#;

const SCRIPT: &str = "set -eu\necho paid >>paid\necho begun >begun\nread -r _ <go\n";

/// The site, and how far the call is.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) store: TestStore,
}

impl World {
    /// The tool may run for so long; nobody believes it dead before, whatever became of the server that
    /// started it.
    pub(crate) fn with_limit(limit: Duration, store: TestStore) -> Self {
        let site = Site::new(CAIRN);
        let limit = format!("time_limit_ms = {}\n", limit.as_millis());
        site.append("cairn.toml", &(TOOL.to_owned() + &limit));
        site.write("pay.sh", SCRIPT);
        for pipe in ["begun", "go"] {
            let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
            assert!(made.expect("mkfifo can be started").success());
        }
        Self { site, store }
    }

    /// Starts the run in the session `s`.
    pub(crate) async fn start_run(&self, client: &mut Client) {
        let request = pb::CreateSessionRequest {
            session: "s".to_owned(),
            request_id: "create".to_owned(),
            title: String::new(),
            ..pb::CreateSessionRequest::default()
        };
        client.create_session(request).await.expect("a session");
        let request = pb::StartRunRequest {
            session: "s".to_owned(),
            request_id: "start".to_owned(),
            run: Some(chain(vec![super::support::tool_step("pay")])),
            ..pb::StartRunRequest::default()
        };
        client.start_run(request).await.expect("a run");
    }

    /// Opening a pipe waits for the other side: a call is under way then.
    pub(crate) fn wait_for_call(&self) {
        let begun = fs::read_to_string(self.site.path().join("begun"));
        assert_eq!(begun.expect("a call begins"), "begun\n");
    }

    /// How often the tool was called.
    pub(crate) fn calls(&self) -> usize {
        let paid = self.site.read("paid").unwrap_or_default();
        paid.lines().count()
    }

    /// Lets every program go that waits at the gate, for as long as this is kept.
    fn open_gate(&self) -> File {
        let path = self.site.path().join("go");
        let both = OpenOptions::new().read(true).write(true).open(path);
        let mut gate = both.expect("the gate");
        std::io::Write::write_all(&mut gate, b"go\ngo\n").expect("the gate opens");
        gate
    }

    /// Waits for the run to ask for the `nth` time, from 1. The watch begins with the journal's
    /// first event, so what was asked before has to be counted.
    pub(crate) async fn wait_for_question(&self, client: &mut Client, nth: usize) {
        let asked = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "run_waiting").count();
        watch(client, |kinds| asked(kinds) == nth).await;
    }

    /// Waits for an event by which the run ends.
    pub(crate) async fn wait_for_end(&self, client: &mut Client, kind: &str) {
        watch(client, |kinds| kinds.iter().any(|known| known == kind)).await;
    }
}

impl Drop for World {
    /// A program that still waits at the gate would wait for ever.
    fn drop(&mut self) {
        drop(self.open_gate());
    }
}

/// Watches the session from its beginning until the kinds of its events are what is waited for.
async fn watch(client: &mut Client, is_enough: impl Fn(&[String]) -> bool) {
    let request = pb::WatchSessionRequest {
        session: "s".to_owned(),
        ..pb::WatchSessionRequest::default()
    };
    let stream = client.watch_session(request).await.expect("a watch");
    let mut stream = stream.into_inner();
    let mut kinds = Vec::new();
    while !is_enough(&kinds) {
        let message = stream.message().await.expect("a message").expect("more");
        kinds.extend(message.event.map(|event| kind(&event)));
    }
}

fn kind(event: &wire::Event) -> String {
    let json = event_json(0, event);
    json["kind"].as_str().expect("a kind").to_owned()
}

/// `cairn serve`, which is killed and started again.
pub(crate) struct Served(Mutex<Running>);

impl Served {
    pub(crate) fn start(world: &World) -> Self {
        Self(Mutex::new(serve(world)))
    }

    pub(crate) fn client(&self) -> Client {
        let line = self.0.lock().expect("the server").first_line.clone();
        let reported: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
        connect(reported["listen"].as_str().expect("an address"))
    }

    /// Kills it while a call is under way, starts it again, and waits until the run asks for the
    /// `nth` time.
    pub(crate) async fn killed_in_a_call(&self, world: &World, nth: usize) -> Client {
        {
            let mut server = self.0.lock().expect("the server");
            server.kill();
            // What the server left running has nobody to tell any more.
            let gate = world.open_gate();
            *server = serve(world);
            drop(gate);
        }
        let mut client = self.client();
        world.wait_for_question(&mut client, nth).await;
        client
    }
}

fn serve(world: &World) -> Running {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
    world.site.start(&serve, &world.store.variables())
}
