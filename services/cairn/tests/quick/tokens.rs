//! Every call over TCP needs the token of its listener, and commands and links find it by themselves.

mod nowhere;

use crate::bad_input::raw::{Answer, call};
use crate::support::CAIRN;
use cairn_rpc::{Link, RemoteOptions, RequireToken, RpcError, Token};
use cairn_testkit::site::{Running, Starting};
use cairn_testkit::{PATIENCE, Site, TOKEN, free_port};
use nowhere::tokens_are_nowhere;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Each before those that it waits for: the order does not matter.
const SERVICES: [&str; 5] = ["orchestrator", "planner", "executor", "tools", "memory"];
const LIST_SESSIONS: &str = "cairn.orchestrator.v1.OrchestratorService.ListSessions";
const GET_TIME: &str = "cairn.memory.v1.JournalService.GetTime";
/// No token in the settings: an empty variable counts as none.
const NONE: (&str, &str) = ("CAIRN_TOKEN", "");

/// The five services, each a process of its own, as one starts them by hand on one machine.
struct Five {
    ports: Vec<u16>,
    _processes: Vec<Starting>,
}

impl Five {
    fn start(site: &Site, variables: &[(&str, &str)]) -> Self {
        let ports: Vec<u16> = SERVICES.iter().map(|_| free_port()).collect();
        let links = SERVICES.iter().zip(&ports).skip(1);
        let links = links.map(|(name, port)| format!("--link={name}=http://127.0.0.1:{port}"));
        let links: Vec<String> = links.collect();
        let start = |(name, port): (&&str, &u16)| {
            let listen = match *name {
                "orchestrator" => "--listen",
                _ => "--internal",
            };
            let place = format!("127.0.0.1:{port}");
            let mut arguments = vec!["serve", name, listen, &place, "--json"];
            arguments.extend(links.iter().map(String::as_str));
            site.begin(&arguments, variables, &format!("{name}.log"))
        };
        let mut processes: Vec<Starting> = SERVICES.iter().zip(&ports).map(start).collect();
        for (process, name) in processes.iter_mut().zip(SERVICES) {
            let line = process.first_line(PATIENCE).unwrap_or_default();
            assert!(
                line.contains(name),
                "{name}: {line:?} {}",
                site.tail(&format!("{name}.log"), 9)
            );
        }
        Self {
            ports,
            _processes: processes,
        }
    }

    fn url(&self) -> String {
        url(self.ports[0])
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn link(port: u16, token: Option<&str>) -> Link {
    let options = match token {
        Some(token) => {
            let token: Token = token.parse().expect("a token");
            RemoteOptions::default().with_tokens(Arc::new(token))
        }
        None => RemoteOptions::default(),
    };
    Link::remote_with(&url(port).parse().expect("an address"), &options)
}

/// The service that users serve, and Cairn calls.
const OF_USERS: &str = "cairn.hook.v1.HookHostService";

/// All methods of all contracts that Cairn serves.
fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).expect("descriptors");
    let services: Vec<_> = pool.services().collect();
    let served = services
        .iter()
        .filter(|service| service.full_name() != OF_USERS);
    served.flat_map(|service| service.methods()).collect()
}

/// The services that reflection names.
async fn reflected(link: Link) -> BTreeSet<String> {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let question = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = ServerReflectionClient::new(link)
        .server_reflection_info(tokio_stream::iter([question]))
        .await;
    let mut answers = answers.expect("reflection").into_inner();
    let answer = answers.next().await.expect("an answer").expect("an answer");
    match answer.message_response {
        Some(MessageResponse::ListServicesResponse(list)) => list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// Which of the methods the listener has; all of these are refused with this reason.
async fn refused(link: &Link, reason: &str) -> BTreeSet<String> {
    let mut refused = BTreeSet::new();
    for method in methods() {
        let name = method.full_name().to_owned();
        let Answer::Refused(status) = call(link, &method, Vec::new()).await else {
            panic!("{name} is answered");
        };
        match status.code() {
            Code::Unimplemented => {}
            Code::Unauthenticated => {
                let error = RpcError::from(status);
                assert_eq!(error.reason_name(), reason, "{name}");
                let message = error.message();
                for part in [
                    ".token on the server's machine",
                    "CAIRN_TOKEN",
                    "serve.token_file",
                ] {
                    assert!(message.contains(part), "{name}: {message}");
                }
                refused.insert(name);
            }
            _ => panic!("{name}: {status:?}"),
        }
    }
    refused
}

async fn every_rpc_of(five: &Five) {
    let all: BTreeSet<String> = methods()
        .iter()
        .map(|it| it.full_name().to_owned())
        .collect();
    let mut reached = BTreeSet::new();
    for port in &five.ports {
        let bare = link(*port, None);
        let mut health = HealthClient::new(bare.clone());
        health
            .check(HealthCheckRequest::default())
            .await
            .expect("health");
        let services = reflected(bare.clone()).await;
        let missing = refused(&bare, RequireToken::MISSING).await;
        let wrong = refused(
            &link(*port, Some("another-token-0123")),
            RequireToken::WRONG,
        )
        .await;
        assert_eq!(missing, wrong);
        let is_reflected =
            |name: &String| services.contains(name.rsplit_once('.').unwrap_or_default().0);
        assert!(missing.iter().all(is_reflected), "{services:?}");
        reached.extend(missing);
    }
    assert_eq!(reached, all, "not every RPC was reached");
}

/// Five processes in terminals of their own, in any order, without a setting: links and commands find
/// the tokens by the ports. Nobody without a token gets anything but health and reflection.
#[tokio::test(flavor = "multi_thread")]
async fn five_processes_on_one_machine_need_no_setting_and_admit_no_others() {
    let site = Site::new(CAIRN);
    let runtime = site.path().join("runtime");
    fs::create_dir(&runtime).expect("a folder");
    let runtime = runtime.display().to_string();
    for (variables, folder) in [
        (vec![NONE], site.beside_store("")),
        (
            vec![NONE, ("XDG_RUNTIME_DIR", &runtime)],
            site.path().join("runtime/cairn"),
        ),
    ] {
        let five = Five::start(&site, &variables);
        for port in &five.ports {
            let file = folder.join(format!("{port}.token"));
            let mode = fs::metadata(&file).expect("a token file").mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        every_rpc_of(&five).await;
        let goal = "Which files under docs mention Redis?";
        let done = site.run_with(&["run", goal, "--server", &five.url()], &variables);
        assert_eq!(done.code, Some(0), "{done:?}");
        tokens_are_nowhere(&site, &folder, &five.ports);
    }
}

/// The whole in one process, with both listeners.
struct Serving {
    running: Running,
    line: Value,
}

impl Serving {
    fn start(site: &Site, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let serve = [
            "serve",
            "memory",
            "tools",
            "executor",
            "planner",
            "orchestrator",
            "--json",
            "--listen=127.0.0.1:0",
            "--internal=127.0.0.1:0",
        ];
        let running = site.start(&[&serve[..], flags].concat(), variables);
        let line = serde_json::from_str(&running.first_line).expect("a line of JSON");
        Self { running, line }
    }

    fn port(&self, listener: &str) -> u16 {
        let url = self.line[listener].as_str().expect("a URL");
        let port = url.rsplit(':').next().expect("a port");
        port.parse().expect("a port")
    }

    fn token_file(&self) -> PathBuf {
        self.line["token_file"].as_str().expect("a file").into()
    }
}

fn method(full_name: &str) -> MethodDescriptor {
    let mut methods = methods().into_iter();
    let found = methods.find(|it| it.full_name() == full_name);
    found.expect("a method")
}

async fn code(port: u16, token: Option<&str>, name: &str) -> Option<Code> {
    match call(&link(port, token), &method(name), Vec::new()).await {
        Answer::Refused(status) => Some(status.code()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_clients_reach_the_public_listener_only() {
    let site = Site::new(CAIRN);
    let serving = Serving::start(&site, &["--allow-anonymous"], &[NONE]);
    let (public, internal) = (serving.port("listen"), serving.port("internal"));
    assert_eq!(code(public, None, LIST_SESSIONS).await, None);
    let mut refused = 0;
    for method in methods() {
        let name = method.full_name();
        match code(internal, None, name).await {
            Some(Code::Unauthenticated) => refused += 1,
            other => assert_eq!(other, Some(Code::Unimplemented), "{name}"),
        }
    }
    assert!(refused > 20, "the internal listener has {refused} methods");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_on_several_machines_share_a_token() {
    let site = Site::new(CAIRN);
    site.write("token", &format!("{TOKEN}\n"));
    site.append("cairn.toml", "\n[serve]\ntoken_file = \"token\"\n");
    for variables in [&[NONE][..], &[("CAIRN_TOKEN", TOKEN)]] {
        let serving = Serving::start(&site, &[], variables);
        for listener in ["listen", "internal"] {
            let port = serving.port(listener);
            let name = [GET_TIME, LIST_SESSIONS][usize::from(listener == "listen")];
            assert_eq!(code(port, None, name).await, Some(Code::Unauthenticated));
            assert_ne!(
                code(port, Some(TOKEN), name).await,
                Some(Code::Unauthenticated)
            );
        }
        let server = url(serving.port("listen"));
        let done = site.run_with(&["sessions", "--server", &server], variables);
        assert_eq!(done.code, Some(0), "{done:?}");
        let shown = site.run_with(&["check-config"], variables);
        assert!(!shown.out.contains(TOKEN), "{shown:?}");
    }
    let variables = [("CAIRN_TOKEN", "another-token-0123")];
    let serving = Serving::start(&site, &[], &[NONE]);
    let server = url(serving.port("listen"));
    let refused = site.run_with(&["sessions", "--server", &server], &variables);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let said = format!("{}{}", refused.out, refused.err);
    assert!(
        said.contains("wrong token") && said.contains("serve.token_file"),
        "{said}"
    );
    assert!(
        !said.contains("another-token") && !said.contains(TOKEN),
        "{said}"
    );
    site.write("token", "short\n");
    let refused = site.run_with(&["serve", "--listen=127.0.0.1:0"], &[NONE]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused
            .err
            .contains("serve.token_file token holds no token"),
        "{refused:?}"
    );
}

/// A process that comes back has a new token, and the file goes at its end. A file that others may know is
/// refused.
#[test]
fn a_token_ends_with_its_process() {
    let site = Site::new(CAIRN);
    let place = format!("127.0.0.1:{}", free_port());
    let serve = ["serve", "--listen", &place, "--json"];
    let read = |running: &Running| -> (PathBuf, String) {
        let line: Value = serde_json::from_str(&running.first_line).expect("JSON");
        let file = PathBuf::from(line["token_file"].as_str().expect("a file"));
        let token = fs::read_to_string(&file).expect("a token");
        (file, token)
    };
    let mut running = site.start(&serve, &[NONE]);
    let (file, token) = read(&running);
    running.kill();
    assert!(file.exists(), "a killed process leaves its file");
    let mut running = site.start(&serve, &[NONE]);
    let (again, next) = read(&running);
    assert_eq!(again, file);
    assert_ne!(next, token);
    let done = site.run_with(
        &["sessions", "--server", &format!("http://{place}")],
        &[NONE],
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    running.terminate();
    assert_eq!(running.wait_for_code(), Some(0));
    assert!(!file.exists(), "the file outlives its process");
    fs::write(&file, next).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("a mode");
    let refused = site.run_with(&serve, &[NONE]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in ["others may use it (mode 640)", "chmod 600"] {
        assert!(refused.err.contains(part), "{refused:?}");
    }
}

/// Another user of the machine reaches neither the socket nor the port.
#[test]
fn another_user_of_the_machine_is_kept_out() {
    if !rustix::process::geteuid().is_root() {
        println!("NOT RUN: only root can be another user, too");
        return;
    }
    let site = Site::new(CAIRN);
    let running = site.start(&["serve", "--listen=127.0.0.1:0", "--json"], &[NONE]);
    let line = serde_json::from_str(&running.first_line).expect("a line of JSON");
    let serving = Serving { running, line };
    // Only the files' own modes are to keep others out.
    let mut folder = serving.token_file();
    let open = |folder: &Path| {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("a mode");
    };
    open(site.path());
    while folder.pop() && folder.starts_with(site.state()) {
        open(&folder);
    }
    let program = site.path().join("cairn");
    fs::copy(CAIRN, &program).expect("the program");
    let as_other = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(arguments)
            .current_dir(site.path())
            .env_clear();
        let done = command.output().expect("setpriv");
        (
            done.status.code(),
            String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(),
        )
    };
    assert_eq!(as_other(&["--version"]).0, Some(0));
    let socket = format!("unix:{}", site.socket().display());
    let public = url(serving.port("listen"));
    for (server, why) in [(&socket, "Permission denied"), (&public, "no token")] {
        let (code, said) = as_other(&["sessions", "--server", server]);
        assert_eq!(code, Some(1), "{server}: {said}");
        assert!(said.contains(why), "{server}: {said}");
    }
    let own = site.run_with(&["sessions", "--server", &public], &[NONE]);
    assert_eq!(own.code, Some(0), "{own:?}");
    drop(serving.running);
}
