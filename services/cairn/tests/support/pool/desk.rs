//! A model that the test plays: each of its questions lies on a desk until the test answers it.

use crate::support::served::{PATIENCE, add_model, title, turn};
use cairn_testkit::model_server::{Release, parts};
use cairn_testkit::{ModelServer, Site};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The questions to a model, in the order in which they came.
pub(crate) struct Desk {
    server: ModelServer,
    questions: Receiver<Question>,
}

/// A question to the model. Its step has a slot until it is answered.
pub(crate) struct Question {
    release: Release,
    /// When it came.
    pub(crate) at: Instant,
    /// The title of the step; none of a turn.
    pub(crate) step: Option<String>,
    /// Replies before it.
    pub(crate) turn: usize,
    /// The system prompt.
    pub(crate) system: String,
    /// The tools that it offers.
    pub(crate) offered: BTreeSet<String>,
    /// The request.
    pub(crate) body: Value,
}

impl Desk {
    /// A model without questions.
    pub(crate) fn open() -> Self {
        let (sender, questions) = channel();
        let server = ModelServer::start(move |body| {
            let (release, answer) = parts();
            let question = Question {
                release,
                at: Instant::now(),
                step: title(body),
                turn: turn(body),
                system: system(body),
                offered: offered(body),
                body: body.clone(),
            };
            // After the test has ended, nothing reads the questions.
            let _ = sender.send(question);
            answer
        });
        Self { server, questions }
    }

    /// The model as the default of a site.
    pub(crate) fn add_to(&self, site: &Site) {
        add_model(site, &self.server);
    }

    /// Waits for the next question.
    pub(crate) fn next(&self) -> Question {
        self.questions.recv_timeout(PATIENCE).expect("a question")
    }

    /// A question that comes within this time.
    pub(crate) fn within(&self, time: Duration) -> Option<Question> {
        self.questions.recv_timeout(time).ok()
    }
}

impl Question {
    /// The title of its step.
    pub(crate) fn title(&self) -> &str {
        self.step.as_deref().expect("a question of a step")
    }

    /// Ends the step.
    pub(crate) fn done(self) {
        self.calls("step", json!({"complete": true, "summary": "done"}));
    }

    /// Calls a tool.
    pub(crate) fn calls(self, tool: &str, arguments: Value) {
        let prefix = format!("call-{}", self.turn);
        self.release.end(&prefix, &[(tool, arguments)]);
    }

    /// Says something and calls nothing, which ends a turn.
    pub(crate) fn says(self, text: &str) {
        self.release.text(text);
        self.release.end("said", &[]);
    }
}

/// The system prompt of a request.
pub(crate) fn system(body: &Value) -> String {
    let first = &body["messages"][0];
    let is_system = first["role"] == "system";
    let text = first["content"].as_str().filter(|_| is_system);
    text.unwrap_or_default().to_owned()
}

/// The names of the tools that a request offers.
pub(crate) fn offered(body: &Value) -> BTreeSet<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["function"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// The resources that a system prompt names as allotted.
pub(crate) fn allotted(system: &str) -> Vec<String> {
    let named = system.rsplit_once("llotted resources: ");
    let ids = named.and_then(|(_, rest)| rest.lines().next());
    let ids = ids.into_iter().flat_map(|ids| ids.split(", "));
    ids.map(str::to_owned).collect()
}
