//! Plays the owner and the tools for an offline model: it plans, carries out every step, and keeps
//! notes and sub-goals as the runtime does.

use crate::tools;
use cairn_engine::escape;
use cairn_engine::message::{Message, ToolCall};
use cairn_model::offline::Offline;
use cairn_model::prompt::PLANNING;
use cairn_model::{ChatRequest, Model, OfferedTool};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Tool turns after which the runtime ends an attempt.
const MAX_TURNS: usize = 10;

/// Bytes of notes that a step may have.
const MAX_NOTES: usize = 16 * 1024;

/// Which calls fail, and how.
pub(crate) type Fault = fn(&str, &Value) -> Option<String>;

/// Title and description.
pub(crate) type Step = (String, String);

/// A step as it went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Played {
    pub summary: String,
    pub notes: String,
    /// The attempt's messages, from the system prompt on.
    pub messages: Vec<Message>,
}

impl Played {
    /// The names of the tools that were called, in order.
    pub(crate) fn calls(&self) -> Vec<&str> {
        let calls = self.messages.iter().flat_map(Message::calls);
        calls.map(|call| call.name.as_str()).collect()
    }
}

pub(crate) fn offered(names: &[&str]) -> Vec<OfferedTool> {
    let tool = |name: &&str| OfferedTool {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    names.iter().map(tool).collect()
}

pub(crate) const FILES: [&str; 4] = ["list_files", "read_file", "search_files", "write_file"];

pub(crate) fn tools_of_a_step() -> Vec<OfferedTool> {
    offered(&[&FILES[..], &["scratchpad", "step"]].concat())
}

/// Asks twice: a reply follows from the request alone.
pub(crate) fn ask(messages: &[Message], tools: Vec<OfferedTool>) -> Message {
    let request = ChatRequest {
        tools: tools.into(),
        ..ChatRequest::new(messages.to_vec())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let model = Offline::new(Duration::ZERO);
    let first = runtime.block_on(model.chat(&request)).unwrap();
    assert_eq!(first, runtime.block_on(model.chat(&request)).unwrap());
    assert_eq!(first.usage.model_calls, 1);
    first.message
}

/// The plan for these messages after the system prompt.
pub(crate) fn plan_for(messages: &[Message]) -> (String, Vec<Step>) {
    let system = Message::system(format!("{PLANNING}\n\nWorkspace: \"quoted\" words"));
    let reply = ask(&[&[system], messages].concat(), vec![]);
    assert!(reply.calls().next().is_none());
    let plan: Value = serde_json::from_str(&reply.text()).unwrap();
    let text = |step: &Value, field: &str| step[field].as_str().unwrap().to_owned();
    let steps = plan["steps"].as_array().unwrap().iter();
    let steps = steps.map(|step| (text(step, "title"), text(step, "description")));
    (reply.text(), steps.collect())
}

/// Plans and carries out every step.
pub(crate) fn run(root: &Path, goal: &str) -> Vec<Played> {
    let (_, plan) = plan_for(&[Message::user(goal)]);
    run_plan(root, goal, &plan, |_, _| None)
}

pub(crate) fn run_plan(root: &Path, goal: &str, plan: &[Step], fault: Fault) -> Vec<Played> {
    let mut done: Vec<Played> = Vec::new();
    for at in 0..plan.len() {
        let context = context(goal, plan, at, &done);
        let messages = vec![Message::system("Carry out."), Message::user(context)];
        done.push(play(root, messages, fault));
    }
    done
}

/// Carries an attempt to its end, from wherever its messages are.
pub(crate) fn play(root: &Path, mut messages: Vec<Message>, fault: Fault) -> Played {
    let mut owner = Owner {
        fault,
        ..Owner::of(root)
    };
    owner.take_up(&mut messages);
    while owner.ended.is_none() {
        assert!(owner.turns < MAX_TURNS, "no end: {messages:#?}");
        let reply = ask(&messages, tools_of_a_step());
        let results = owner.answer(&reply, &[]);
        messages.push(reply);
        messages.extend(results);
    }
    Played {
        summary: owner.ended.unwrap(),
        notes: owner.notes,
        messages,
    }
}

/// The step context in the runtime's layout.
fn context(goal: &str, plan: &[Step], at: usize, done: &[Played]) -> String {
    let (title, description) = &plan[at];
    let (goal, title) = (escape::lines(goal), escape::line(title));
    let description = escape::lines(description);
    let step = at + 1;
    let mut text = format!(
        "## Requirement\n{goal}\n\n## Plan overview\n1. Survey\n\n## Current step (step {step})\n\
         Title: {title}\nDescription: {description}"
    );
    if !done.is_empty() {
        text += "\n\n## Summaries of finished steps";
    }
    for (index, step) in done.iter().enumerate() {
        text += &format!("\n- Step {}: {}", index + 1, escape::entry(&step.summary));
    }
    let notes = done.iter().map(|step| escape::lines(&step.notes));
    let notes: Vec<String> = notes.filter(|notes| !notes.is_empty()).collect();
    if !notes.is_empty() {
        text += &format!("\n\n## Scratchpad\n{}", notes.join("\n"));
    }
    text
}

/// What the owner keeps of an attempt.
struct Owner<'a> {
    root: &'a Path,
    fault: Fault,
    notes: String,
    open: Vec<String>,
    focus: Option<String>,
    ended: Option<String>,
    ids: Vec<String>,
    turns: usize,
}

impl<'a> Owner<'a> {
    fn of(root: &'a Path) -> Self {
        Self {
            root,
            fault: |_, _| None,
            notes: String::new(),
            open: Vec::new(),
            focus: None,
            ended: None,
            ids: Vec::new(),
            turns: 0,
        }
    }

    /// Goes through the messages of an attempt that was cut, and makes the calls that have no result.
    fn take_up(&mut self, messages: &mut Vec<Message>) {
        let is_reply = |at: &usize| messages[*at].calls().next().is_some();
        let replies: Vec<usize> = (0..messages.len()).filter(is_reply).collect();
        for at in replies {
            let results = messages[at + 1..].iter();
            let results = results.take_while(|it| it.results().next().is_some());
            let known: Vec<Message> = results.cloned().collect();
            let reply = messages[at].clone();
            let all = self.answer(&reply, &known);
            messages.splice(at + 1..at + 1 + known.len(), all);
        }
    }

    /// Answers the calls of a reply; results that are known already are kept.
    fn answer(&mut self, reply: &Message, known: &[Message]) -> Vec<Message> {
        self.turns += 1;
        assert!(
            reply.calls().next().is_some(),
            "text ends no step: {reply:?}"
        );
        let mut results = Vec::new();
        for call in reply.calls() {
            assert!(!self.ids.contains(&call.id), "{} twice", call.id);
            self.ids.push(call.id.clone());
            let answer = self.call(call);
            let is_it = |message: &&Message| message.results().any(|it| it.call_id == call.id);
            results.push(
                known
                    .iter()
                    .find(is_it)
                    .cloned()
                    .unwrap_or_else(|| match answer {
                        Ok(text) => Message::tool(&call.id, text, false),
                        Err(text) => Message::tool(&call.id, text, true),
                    }),
            );
        }
        results
    }

    fn call(&mut self, call: &ToolCall) -> Result<String, String> {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        if let Some(error) = (self.fault)(&call.name, &arguments) {
            return Err(error);
        }
        match call.name.as_str() {
            "step" => {
                self.step(&arguments);
                Ok("done".to_owned())
            }
            "scratchpad" => {
                assert_eq!(arguments["mode"], "replace");
                self.notes = arguments["text"].as_str().unwrap().to_owned();
                assert!(self.notes.len() <= MAX_NOTES, "{}", self.notes.len());
                Ok("noted".to_owned())
            }
            name => tools::call(self.root, name, &arguments),
        }
    }

    fn step(&mut self, arguments: &Value) {
        for goal in arguments["plan"].as_array().into_iter().flatten() {
            self.open.push(goal.as_str().unwrap().to_owned());
        }
        if arguments["complete"] == json!(true) {
            let summary = arguments["summary"].as_str().unwrap();
            assert!(!summary.trim().is_empty());
            match self.focus.take() {
                Some(goal) => self.open.retain(|open| *open != goal),
                None => {
                    assert!(self.open.is_empty(), "open: {:?}", self.open);
                    self.ended = Some(summary.to_owned());
                }
            }
        }
        if let Some(focus) = arguments["focus"].as_str() {
            assert!(self.open.iter().any(|open| open == focus), "{focus}");
            self.focus = Some(focus.to_owned());
        }
    }
}
