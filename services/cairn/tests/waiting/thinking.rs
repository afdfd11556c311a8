//! Thinking blocks survive kill -9, resume and fork byte for byte, and go back only to the provider and
//! the model that made them.

use crate::support::CAIRN;
use cairn_testkit::model_server::{Answer, Asked, anthropic_reply, reply};
use cairn_testkit::site::Starting;
use cairn_testkit::{ModelServer, Site};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A call says that it has begun, and does not end, while there is a file `held`.
const WEIGH: &str = r#"
set -eu
if [ -e held ]; then
  echo begun >begun
  read -r _ <never
fi
echo 'Two pounds.'
"#;

const TOOL: &str = r#"
[[tools.commands]]
name = "weigh"
description = "Weighs it."
argv = ["sh", "weigh.sh"]
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

/// A signature as no other text has it.
const SIGNATURE: &str = "EqoBCkgIBxABGAIiQL/+w0Zk==";
const REDACTED: &str = "EmwKAhgBEgy3va3pzix/LafPsn4a==";

/// The thoughts of the model, with characters that an encoder might change.
fn thoughts() -> [Value; 2] {
    let thinking = "It is \"heavy\": über 2 kg \u{1f9ea}\n\t</thinking> \\u0041 1.0e3";
    [
        json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE, "later": [1, null]}),
        json!({"type": "redacted_thinking", "data": REDACTED}),
    ]
}

/// The questions that the model was asked, and whether the next one is held.
#[derive(Debug, Default)]
struct Questions {
    asked: Vec<Asked>,
    holds: Option<Sender<()>>,
}

struct World {
    site: Site,
    /// Without a model.
    settings: String,
    questions: Arc<Mutex<Questions>>,
    model: ModelServer,
}

impl World {
    fn new() -> Self {
        let questions: Arc<Mutex<Questions>> = Arc::default();
        let seen = Arc::clone(&questions);
        let model = ModelServer::seeing(move |asked| answer(asked, &seen));
        let site = Site::new(CAIRN);
        site.append("cairn.toml", TOOL);
        site.write("weigh.sh", WEIGH);
        let settings = site.read("cairn.toml").expect("settings");
        let plan = json!({"steps": [{"title": "Weigh", "description": "Weigh it."}]});
        site.write("plan.json", &plan.to_string());
        for pipe in ["begun", "never"] {
            let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
            assert!(made.expect("mkfifo can be started").success());
        }
        let world = Self {
            site,
            settings,
            questions,
            model,
        };
        world.ask("anthropic", "thinker-1");
        world
    }

    /// From now on the model `served` is this one.
    fn ask(&self, provider: &str, model: &str) {
        let served = format!(
            "\n[model]\ndefault = \"served\"\n\n[models.served]\nprovider = \"{provider}\"\n\
             model = \"{model}\"\nbase_url = \"{}\"\napi_key = \"sk-none\"\n",
            self.model.url()
        );
        self.site
            .write("cairn.toml", &(self.settings.clone() + &served));
    }

    fn done(&self, arguments: &[&str]) {
        let done = self.site.run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    }

    /// The questions since the last time.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.lock().asked)
    }

    /// The next question that follows the call has no answer; the receiver gets a value when it comes.
    fn hold(&self) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.lock().holds = Some(sender);
        receiver
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Questions> {
        self.questions.lock().expect("no panic")
    }

    fn begin(&self, arguments: &[&str]) -> Starting {
        self.site.begin(arguments, &[], "log")
    }

    /// Forks the session `s` right after the first reply, resumes the fork, and returns the one question
    /// that its model is asked.
    fn asked_in_fork(&self, child: &str) -> Asked {
        let journal = self.site.journal("s");
        let seq = journal.of_kind("reply_received")[0]["seq"].clone();
        let at = seq.as_u64().expect("a number").to_string();
        self.done(&["fork", "s", "--new-session", child, "--at", &at]);
        let copied = self.site.journal(child);
        assert_eq!(copied.of_kind("reply_received").len(), 1, "{child}");
        assert_eq!(copied.of_kind("call_finished").len(), 0, "{child}");
        self.done(&["resume", child]);
        let mut asked = self.asked();
        assert_eq!(asked.len(), 1, "{child}: {asked:?}");
        asked.remove(0)
    }
}

fn answer(asked: &Asked, questions: &Mutex<Questions>) -> Answer {
    let mut questions = questions.lock().expect("no panic");
    questions.asked.push(asked.clone());
    let messages = asked.body["messages"].as_array().expect("messages");
    let is_first = messages.iter().all(|it| it["role"] != "assistant");
    if let Some(sender) = questions.holds.take_if(|_| !is_first) {
        sender.send(()).expect("the test waits");
        return Answer::Hold;
    }
    let end = json!({"complete": true, "summary": "Two pounds."});
    let call = |name: &str, input: Value| {
        let id = format!("toolu_{name}");
        json!({"type": "tool_use", "id": id, "name": name, "input": input})
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 10});
    if asked.line.contains("/chat/completions") {
        return reply("call", "", &[("step", end)]);
    }
    match is_first {
        true => {
            let [thinking, redacted] = thoughts();
            let text = |text: &str| json!({"type": "text", "text": text});
            let (said, more) = (text("I weigh it."), text("On a scale."));
            let content = [thinking, said, redacted, more, call("weigh", json!({}))];
            anthropic_reply(&content, &usage)
        }
        false => anthropic_reply(&[call("step", end)], &usage),
    }
}

/// Panics unless the request has the blocks as they came, in their place: among the texts of the reply.
fn check_has_thoughts(asked: &Asked) {
    let [thinking, redacted] = thoughts();
    let text = |text: &str| format!("{{\"type\":\"text\",\"text\":\"{text}\"}}");
    let (said, more) = (text("I weigh it."), text("On a scale."));
    let blocks = format!("[{thinking},{said},{redacted},{more},{{\"type\":\"tool_use\"");
    let reply = format!("{{\"role\":\"assistant\",\"content\":{blocks}");
    assert!(asked.text.contains(&reply), "{}", asked.text);
    check_has_call(asked);
}

/// Panics unless the request has the call and its result, and nothing of the blocks.
fn check_has_no_thoughts(asked: &Asked) {
    for word in [SIGNATURE, REDACTED, "heavy", "thinking"] {
        assert!(!asked.text.contains(word), "{word}: {}", asked.text);
    }
    check_has_call(asked);
}

fn check_has_call(asked: &Asked) {
    for word in ["I weigh it.", "\"toolu_weigh\"", "Two pounds."] {
        assert!(asked.text.contains(word), "{word}: {}", asked.text);
    }
}

#[test]
fn thoughts_survive_kills_and_forks_and_go_to_their_model_only() {
    let world = World::new();
    let run = |session| ["run", "--plan", "plan.json", "--session", session];
    // The process is killed in the middle of the call, and then while the model is asked.
    world.site.write("held", "");
    let running = world.begin(&run("s"));
    let mut text = String::new();
    let begun = File::open(world.site.path().join("begun"));
    let read = begun.expect("a pipe").read_to_string(&mut text);
    read.expect("the call begins");
    drop(running);
    std::fs::remove_file(world.site.path().join("held")).expect("the file");
    let first = world.asked();
    let question = world.hold();
    let running = world.begin(&["resume", "s"]);
    question.recv().expect("the model is asked");
    drop(running);
    let second = world.asked();
    world.done(&["resume", "s"]);
    let third = world.asked();
    assert_eq!((first.len(), second.len(), third.len()), (1, 1, 1));
    check_has_thoughts(&second[0]);
    assert_eq!(third[0].text, second[0].text);
    let continued = world.site.journal("s").of_kind("attempt_continued").len();
    assert_eq!(continued, 2);
    // A process that was never killed sends the same.
    world.done(&run("calm"));
    let calm = world.asked();
    assert_eq!(calm.len(), 2, "{calm:?}");
    assert_eq!(calm[0].text, first[0].text);
    assert_eq!(calm[1].text, second[0].text);
    // So does a fork.
    assert_eq!(world.asked_in_fork("same").text, second[0].text);
    world.ask("anthropic", "thinker-2");
    check_has_no_thoughts(&world.asked_in_fork("another-model"));
    world.ask("openai", "thinker-1");
    check_has_no_thoughts(&world.asked_in_fork("another-provider"));
    // They are still in the journal.
    world.ask("anthropic", "thinker-1");
    assert_eq!(world.asked_in_fork("again").text, second[0].text);
}
