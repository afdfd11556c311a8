//! A site full of secrets, and a model's server that is told some of them.

use super::places::Places;
use super::{canary, in_order, key};
pub(crate) use crate::support::CAIRN;
use cairn_testkit::model_server::{Answer, Asked, reply};
use cairn_testkit::{Collector, ModelServer, Output, Site, TraceSpan};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// The level of logs that shows all there is, also of libraries that are quiet unless they are named.
pub(crate) const EVERYTHING: &str = "trace,h2=trace,hyper=trace,hyper_util=trace,tower=trace,\
                                     rustls=trace,tonic=trace,reqwest=trace,tokio_util=trace";

/// What a server answers.
pub(crate) type Answers = Box<dyn Fn(&Asked) -> Answer + Send + Sync>;

/// A tool that says its environment, one that fails with words, one that uses a secret and says
/// nothing of it.
const TOOLS: &str = r#"
[[tools.commands]]
name = "reveal"
description = "Says its environment."
argv = ["env"]
effect = "pure"
env = ["GIVEN"]
parameters = { type = "object" }

[[tools.commands]]
name = "stumble"
description = "Fails."
argv = ["sh", "-c", "cat stderr.txt >&2; exit 3"]
effect = "pure"
parameters = { type = "object" }

[[tools.commands]]
name = "use"
description = "Uses a secret."
argv = ["sh", "-c", 'test -n "$QUIET" && echo "used it"']
effect = "pure"
env = ["QUIET"]
parameters = { type = "object" }
"#;

/// Commands that show something of the latest session, or of the settings.
pub(crate) const ALL: [&str; 24] = [
    "export",
    "tree",
    "tree --json",
    "tree --view text",
    "tree --view json",
    "tree --view todo",
    "tree --view history",
    "tree --view nodes",
    "report",
    "report --json",
    "state",
    "log",
    "log --full",
    "log --json",
    "show",
    "show --json",
    "sessions",
    "sessions --json",
    "pending",
    "memory list",
    "watch --no-follow",
    "watch --no-follow --json",
    "check-config",
    "check-config --json",
];

/// Those of them that tell of an error.
pub(crate) const ERRORS: [&str; 5] = ["export", "tree --json", "report", "log --json", "show"];

/// A plan of one step for the model.
pub(crate) fn plan() -> Answer {
    let plan = json!({"steps": [{"title": "Look", "description": "Look around."}]});
    reply("plan", &plan.to_string(), &[])
}

/// Calls of all tools.
pub(crate) fn calls() -> Answer {
    let nothing = || json!({});
    let calls = [
        ("reveal", nothing()),
        ("stumble", nothing()),
        ("use", nothing()),
    ];
    reply("calls", &format!("I look. {}", echoed()), &calls)
}

/// The end of the step.
pub(crate) fn end() -> Answer {
    let end = json!({"complete": true, "summary": format!("Looked. {}", echoed())});
    reply("end", "", &[("step", end)])
}

/// The key and the header that the server was sent, in a reply's text or in the arguments of a call.
fn echoed() -> String {
    let header = canary("header of a model in the file");
    format!("Key {}, header {header}.", canary("OPENAI_API_KEY"))
}

/// The site and the server.
pub(crate) struct World {
    pub(crate) site: Site,
    server: ModelServer,
    asked: Arc<Mutex<Vec<Asked>>>,
    collector: Collector,
}

impl World {
    /// A server that answers so, and a site with all secrets.
    pub(crate) fn new(answers: Vec<Answer>) -> Self {
        let site = Site::new(CAIRN);
        let asked = Arc::default();
        let server = ModelServer::seeing(in_order(answers, Arc::clone(&asked)));
        site.append("cairn.toml", TOOLS);
        let filed = canary("api_key of a model in the file");
        let header = canary("header of a model in the file");
        site.append(
            "cairn.toml",
            &format!(
                "[models.filed]\napi_key = \"{filed}\"\n\
                 [models.openai.headers]\nx-canary = \"{header}\"\n"
            ),
        );
        site.write("stderr.txt", canary("standard error of a tool"));
        Self {
            site,
            server,
            asked,
            collector: Collector::start(),
        }
    }

    /// All that was sent to the collector of traces. A process sends the last of it when it ends.
    pub(crate) fn add_spans(&self, places: &mut Places) {
        let is_there = |spans: &[TraceSpan]| {
            let is_work = |span: &TraceSpan| span.name.starts_with("execute_tool");
            spans.iter().any(is_work)
        };
        self.collector.wait_for(is_there);
        places.add_text("spans", format!("{:?}", self.collector.spans()));
    }

    fn variables(&self) -> [(&'static str, String); 11] {
        [
            ("OPENAI_BASE_URL", self.server.url().to_owned()),
            ("OPENAI_API_KEY", key().to_owned()),
            ("ANTHROPIC_API_KEY", canary("ANTHROPIC_API_KEY").to_owned()),
            (
                "CAIRN_MODELS__OPENAI__HEADERS__XVARIABLE",
                canary("header of a model in a variable").to_owned(),
            ),
            (
                "UNGIVEN",
                canary("variable that no tool is given").to_owned(),
            ),
            (
                "GIVEN",
                canary("variable of a tool that says it").to_owned(),
            ),
            (
                "QUIET",
                canary("variable of a tool that does not say it").to_owned(),
            ),
            (
                "CAIRN_MODELS__VARIED__API_KEY",
                canary("api_key of a model in a variable").to_owned(),
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                format!("x-token={}", canary("header for the collector of traces")),
            ),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", self.collector.endpoint()),
            ("CAIRN_TOKEN", canary("token of the listeners").to_owned()),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.site.command(arguments);
        command.args(["--log", EVERYTHING]).envs(self.variables());
        command
    }

    /// Runs a command that logs all it can, and keeps what it printed.
    pub(crate) fn run(&self, arguments: &[&str], places: &mut Places) -> Output {
        let variables = self.variables();
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let logged = [arguments, &["--log", EVERYTHING]].concat();
        let done = self.site.run_with(&logged, &variables);
        places.add(&arguments.join(" "), &done);
        done
    }

    /// The same with another token than that of the server.
    pub(crate) fn without_token(&self, arguments: &[&str], places: &mut Places) -> Output {
        let logged = [arguments, &["--log", EVERYTHING]].concat();
        let done = self.site.run(&logged);
        places.add(&format!("{} refused", arguments.join(" ")), &done);
        done
    }

    /// What commands show of the latest session, and every file.
    pub(crate) fn look_everywhere(&self, views: &[&str], places: &mut Places) {
        for view in views {
            let arguments: Vec<&str> = view.split(' ').collect();
            let done = self.run(&arguments, places);
            assert_eq!(done.code, Some(0), "{view}: {done:?}");
        }
        self.add_files(places);
    }

    /// Every file of the site, and of its store.
    pub(crate) fn add_files(&self, places: &mut Places) {
        places.add_files(self.site.path());
        places.add_files(self.site.store().parent().expect("a folder"));
    }

    /// The server was told the key and the headers, and a tool used its secret: what is searched
    /// for was really there.
    pub(crate) fn check_sent(&self) {
        let asked = self.asked.lock().expect("a list");
        assert!(!asked.is_empty(), "nobody asked");
        for request in asked.iter() {
            let bearer = format!("Bearer {}", key());
            assert_eq!(request.header("authorization"), bearer);
            let header = canary("header of a model in the file");
            assert_eq!(request.header("x-canary"), header);
            let variable = canary("header of a model in a variable");
            assert_eq!(request.header("xvariable"), variable);
        }
        let last = asked.last().expect("a request").body.to_string();
        assert!(last.contains("used it"), "{last}");
    }

    /// Starts `cairn serve`, which logs all it can into a file. Also where it and its metrics are.
    pub(crate) fn serve(&self) -> (Child, String, String) {
        let logs = File::create(self.site.path().join("serve.logs")).expect("a file");
        let ports = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let mut command = self.command(&[&["serve", "--json"][..], &ports].concat());
        command.stdout(Stdio::piped()).stderr(logs);
        let mut server = command.spawn().expect("the program can be started");
        let out = server.stdout.as_mut().expect("its output");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("a line");
        let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let url = |name: &str| line[name].as_str().expect("a URL").to_owned();
        (server, url("listen"), url("metrics"))
    }

    /// Ends it, so that its logs are whole.
    pub(crate) fn stop(&self, mut server: Child) {
        server.kill().expect("it can be killed");
        server.wait().expect("its end");
    }
}

/// What is at a URL.
pub(crate) fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
