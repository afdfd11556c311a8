//! A call with side effects that is on its way when everybody who sent it dies, and arrives when its
//! session has another owner and a person has said that it is to be made again: tools does not begin it.

use super::{CAIRN, PATIENCE, client, logs, step};
use crate::support::{Client, chain};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Outcome, Retry};
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Cluster, Site, TestStore, eventually_async};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// How tools says that it refused a call.
const REFUSED: &str = "a call is not let through";
/// What names the call, in its bytes.
const NAME: &str = "the-late-one";

/// The way to a server, on which what clients say can be held up. It arrives later, whether they live
/// or not.
struct Way {
    server: String,
    port: u16,
    said: Arc<(Mutex<Said>, Condvar)>,
}

/// What clients have said.
#[derive(Default)]
struct Said {
    is_held: bool,
    /// By connection, from its beginning.
    bytes: BTreeMap<usize, Vec<u8>>,
}

impl Said {
    /// What was said on the connection on which a request with this text was, if that is whole.
    fn with(&self, text: &str) -> Option<&[u8]> {
        let says = |said: &&Vec<u8>| has_request(said, text);
        self.bytes.values().find(says).map(Vec::as_slice)
    }
}

/// Whether what a client of HTTP/2 said has a request with this text, up to its end: the end is told
/// by itself, and without it nobody begins anything.
fn has_request(said: &[u8], text: &str) -> bool {
    const PREFACE: usize = 24;
    const DATA: u8 = 0;
    const END_STREAM: u8 = 1;
    let mut rest = said.get(PREFACE..).unwrap_or_default();
    let mut stream = None;
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let [high, middle, low, kind, flags, id @ ..] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let Some((payload, after)) = after.split_at_checked(length) else {
            return false;
        };
        rest = after;
        if kind != DATA {
            continue;
        }
        if payload.windows(text.len()).any(|it| it == text.as_bytes()) {
            stream = Some(id);
        }
        if stream == Some(id) && flags & END_STREAM != 0 {
            return true;
        }
    }
    false
}

impl Way {
    fn to(server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let said: Arc<(Mutex<Said>, Condvar)> = Arc::default();
        let (way, to) = (said.clone(), server.clone());
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let Ok(server) = TcpStream::connect(&to) else {
                    continue;
                };
                let ends = || (client.try_clone(), server.try_clone());
                if let ((Ok(from), Ok(to)), (Ok(back), Ok(answers))) = (ends(), ends()) {
                    let way = way.clone();
                    std::thread::spawn(move || pass_on(number, from, to, &way));
                    std::thread::spawn(move || answer(answers, back));
                }
            }
        });
        Self { server, port, said }
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn hold(&self) {
        self.said.0.lock().expect("a lock").is_held = true;
    }

    /// Waits until this is on the way.
    fn wait_for(&self, text: &str) {
        let (said, more) = &*self.said;
        let is_missing = |said: &mut Said| said.with(text).is_none();
        let waited = more.wait_timeout_while(said.lock().expect("a lock"), PATIENCE, is_missing);
        assert!(!waited.expect("a lock").1.timed_out(), "nobody says {text}");
    }

    /// Lets the server hear what was said on the connection on which this was: all of it, on one that
    /// has just begun, as it has long given up the one that was silent. The result is that connection.
    fn deliver(&self, text: &str) -> TcpStream {
        let mut server = TcpStream::connect(&self.server).expect("the server");
        let said = self.said.0.lock().expect("a lock");
        let said = said.with(text).expect("it was said");
        server.write_all(said).expect("it is heard");
        server
    }
}

/// Passes on what a client says, unless it is held up.
fn pass_on(
    number: usize,
    mut from: TcpStream,
    mut to: TcpStream,
    (said, more): &(Mutex<Said>, Condvar),
) {
    let mut part = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut part) {
        let mut said = said.lock().expect("a lock");
        let bytes = said.bytes.entry(number).or_default();
        bytes.extend(&part[..length]);
        more.notify_all();
        if !said.is_held && to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Passes on what the server says.
fn answer(mut from: TcpStream, mut to: TcpStream) {
    let mut part = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut part) {
        if to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A tool that says that it began, and ends when it is let.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits."
argv = ["sh", "-c", ": >began; until [ -e open ] || [ ! -e began ]; do sleep 0.02; done"]
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

/// How often the call happened: before the late one arrived, and afterwards.
struct Times {
    before: usize,
    after: usize,
}

/// Holds up a call until everybody who sent it has died and it was made again.
async fn a_late_call_arrives(sabotage: &str) -> Times {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    let store = TestStore::redis();
    let variables = [&store.variables()[..], &[("CAIRN_SABOTAGE", sabotage)]].concat();
    let mut cluster = Cluster::start(&site, &variables);
    let way = Way::to(&cluster.address("tools"));
    cluster.detour("tools", Some(way.address()));
    cluster.start_again("executor");
    let session = start(&mut client(&cluster)).await;
    wait_for("the gate", &site, || site.read("began").is_some()).await;
    way.hold();
    site.write("open", "");
    way.wait_for(NAME);
    // The executor first: it would take the call back if nobody wanted it any more.
    cluster.kill("executor");
    cluster.kill("orchestrator");
    cluster.detour("tools", None);
    cluster.start_again("executor");
    cluster.start_again("orchestrator");
    let times = || site.ledger().times(&format!(r#"{{"what":"{NAME}"}}"#));
    assert_eq!(times(), 0, "it is on its way");
    have_it_made_again(&mut client(&cluster), &session).await;
    let before = times();
    // Another call may have been refused, on a slow machine.
    let refused = || {
        site.read("tools.log")
            .unwrap_or_default()
            .matches(REFUSED)
            .count()
    };
    let refused_before = refused();
    let _arriving = way.deliver(NAME);
    let is_there = || times() > before || refused() > refused_before;
    wait_for("the late call", &site, is_there).await;
    let after = times();
    Times { before, after }
}

/// Starts a run of the gate and the call, and tells its session.
async fn start(client: &mut Client) -> String {
    let steps = vec![
        step("gate", "{}".to_owned()),
        step("record", format!(r#"{{"what":"{NAME}"}}"#)),
    ];
    let request = pb::StartRunRequest {
        session: String::new(),
        request_id: "r-1".to_owned(),
        run: Some(chain(steps)),
        ..pb::StartRunRequest::default()
    };
    let started = client.start_run(request).await.expect("the run starts");
    started.into_inner().session
}

/// Watches until the run has ended, and says of the call in doubt that it is to be made again: at once,
/// which takes effect when it can no longer be running.
async fn have_it_made_again(client: &mut Client, session: &str) {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        after_seq: 0,
        ..pb::WatchSessionRequest::default()
    };
    let watch = client.watch_session(request).await.expect("a watch");
    let mut watch = watch.into_inner();
    loop {
        let message = tokio::time::timeout(PATIENCE, watch.message()).await;
        let message = message.expect("an event in time").expect("an event");
        match message.and_then(|it| it.event).and_then(|it| it.kind) {
            Some(Kind::RunWaiting(_)) => retry(client, session).await,
            Some(Kind::RunCompleted(_)) => return,
            Some(Kind::RunFailed(failed)) => panic!("{failed:?}"),
            _ => {}
        }
    }
}

async fn retry(client: &mut Client, session: &str) {
    let request = pb::ListPendingRequest {
        session: session.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let open = client.list_pending(request).await.expect("questions");
    let open = open.into_inner().pending;
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0].reason(), wire::WaitReason::InDoubt);
    let outcome = Some(Outcome::Retry(Retry {}));
    let request = pb::DecideRequest {
        session: session.to_owned(),
        request_id: "decide".to_owned(),
        pending_id: open[0].id.clone(),
        settlement: Some(wire::Settlement { outcome }),
    };
    client.decide(request).await.expect("it is open");
}

async fn wait_for(what: &str, site: &Site, is_there: impl Fn() -> bool) {
    let report = std::fmt::from_fn(|f| write!(f, "{what}\n{}", logs(site)));
    eventually_async(report, async || is_there().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_arrives_late_is_not_begun() {
    let times = a_late_call_arrives("").await;
    assert_eq!((times.before, times.after), (1, 1));
}

/// The gate is all that holds it off: the test above could not pass without it.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_gate_it_happens_twice() {
    let times = a_late_call_arrives("gate").await;
    assert_eq!((times.before, times.after), (1, 2));
}
