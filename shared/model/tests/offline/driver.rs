//! Plays the owner and the tools for an offline model: plans, carries out every step, keeps notes and
//! sub-goals as the runtime does, and answers file tools by plain `std::fs`.

use crate::tools;
use cairn_engine::escape;
use cairn_engine::message::{Message, ToolCall};
use cairn_model::offline::Offline;
use cairn_model::{ChatRequest, Model, OfferedTool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tool turns after which an attempt fails.
const MAX_TURNS: usize = 10;

/// Tool turns that a step of an offline model takes at most.
const EXPECTED_TURNS: usize = 8;

/// Bytes of notes that a step may have.
const MAX_NOTES: usize = 16 * 1024;

type Fault = Box<dyn Fn(&str, &Value) -> Option<String>>;

/// A workspace and how its tools behave.
pub(crate) struct Stage {
    pub root: PathBuf,
    /// Bytes of a tool's result.
    pub output_limit: usize,
    /// What fails, with which error.
    pub fault: Fault,
}

/// A step as it went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Played {
    pub title: String,
    pub summary: String,
    pub notes: String,
    /// The attempt's messages, from the system prompt on.
    pub messages: Vec<Message>,
    /// Sub-goals in the order in which they were completed.
    pub sub_goals: Vec<String>,
    /// The files that were read, each with the sub-goal that was in focus when the reply came.
    pub reads: Vec<(Option<String>, String)>,
    pub turns: usize,
}

/// A run as it went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub goal: String,
    pub steps: Vec<Played>,
    pub report: Option<String>,
}

impl Run {
    /// The answer that a person is shown.
    pub(crate) fn answer(&self) -> &str {
        &self.steps.last().unwrap().summary
    }

    pub(crate) fn titles(&self) -> Vec<&str> {
        self.steps.iter().map(|step| step.title.as_str()).collect()
    }

    pub(crate) fn report(&self) -> &str {
        self.report.as_deref().unwrap()
    }
}

pub(crate) fn offered() -> Vec<OfferedTool> {
    [
        "list_files",
        "read_file",
        "scratchpad",
        "search_files",
        "step",
        "write_file",
    ]
    .map(|name| OfferedTool {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    })
    .to_vec()
}

/// Asks twice: the reply is a pure function of the messages.
pub(crate) fn ask(messages: &[Message], tools: Vec<OfferedTool>) -> Message {
    let request = ChatRequest {
        messages: messages.to_vec(),
        tools: tools.into(),
        ..ChatRequest::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let model = Offline::new(Duration::ZERO);
    let first = runtime.block_on(model.chat(&request)).unwrap();
    let second = runtime
        .block_on(Offline::new(Duration::ZERO).chat(&request))
        .unwrap();
    assert_eq!(first, second);
    assert_eq!(first.usage.model_calls, 1);
    assert_eq!(
        (first.usage.cost_nano_usd, first.usage.input_tokens),
        (0, 0)
    );
    first.message
}

/// The steps of the plan for a goal: title and description.
pub(crate) fn plan(goal: &str) -> Vec<(String, String)> {
    let system = "Plan.\n\nWorkspace: the current folder. \"quoted words\" here are no terms.\n\n\
                  Tools: list_files, read_file, search_files, write_file";
    let messages = [Message::system(system), Message::user(goal)];
    let reply = ask(&messages, vec![]);
    assert!(reply.calls().next().is_none());
    let plan: Value = serde_json::from_str(&reply.text()).unwrap();
    let text = |step: &Value, field: &str| step[field].as_str().unwrap().to_owned();
    let steps = plan["steps"].as_array().unwrap().iter();
    steps
        .map(|step| (text(step, "title"), text(step, "description")))
        .collect()
}

impl Stage {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            output_limit: usize::MAX,
            fault: Box::new(|_, _| None),
        }
    }

    /// Plans and carries out every step.
    pub(crate) fn run(&self, goal: &str) -> Run {
        self.run_plan(goal, &plan(goal))
    }

    pub(crate) fn run_plan(&self, goal: &str, plan: &[(String, String)]) -> Run {
        let mut steps: Vec<Played> = Vec::new();
        for at in 0..plan.len() {
            let messages = vec![
                Message::system("Carry out."),
                Message::user(context(goal, plan, at, &steps)),
            ];
            let played = self.play(&plan[at].0, messages);
            assert!(
                played.turns <= EXPECTED_TURNS,
                "{}: {} turns",
                played.title,
                played.turns
            );
            steps.push(played);
        }
        Run {
            goal: goal.to_owned(),
            steps,
            report: std::fs::read_to_string(self.root.join("cairn-out/report.md")).ok(),
        }
    }

    /// Carries an attempt to its end, from wherever its messages stand.
    pub(crate) fn play(&self, title: &str, messages: Vec<Message>) -> Played {
        let mut owner = Owner::default();
        let mut messages = owner.replay(self, messages);
        for _ in owner.turns..=MAX_TURNS {
            if let Some(summary) = owner.ended {
                return Played {
                    title: title.to_owned(),
                    summary,
                    notes: owner.notes,
                    messages,
                    sub_goals: owner.completed,
                    reads: owner.reads,
                    turns: owner.turns,
                };
            }
            let reply = ask(&messages, offered());
            messages.push(reply.clone());
            messages.extend(owner.answer(self, &reply, &[]));
        }
        panic!("{title} did not end in {MAX_TURNS} turns: {messages:#?}");
    }
}

/// The step context, in the runtime's layout.
fn context(goal: &str, plan: &[(String, String)], at: usize, done: &[Played]) -> String {
    let overview: Vec<String> = plan
        .iter()
        .enumerate()
        .map(|(index, (title, _))| {
            let mark = match index.cmp(&at) {
                std::cmp::Ordering::Less => " done",
                std::cmp::Ordering::Equal => " >> current",
                std::cmp::Ordering::Greater => "",
            };
            format!("{}. {title}{mark}", index + 1)
        })
        .collect();
    let (title, description) = &plan[at];
    let mut text = format!(
        "## Requirement\n{}\n\n## Plan overview\n{}\n\n## Current step (step {})\n\
         Title: {}\nDescription: {}",
        escape::lines(goal),
        overview.join("\n"),
        at + 1,
        escape::line(title),
        escape::lines(description),
    );
    if !done.is_empty() {
        text += "\n\n## Summaries of finished steps";
    }
    for (index, step) in done.iter().enumerate() {
        text += &format!("\n- Step {}: {}", index + 1, escape::entry(&step.summary));
    }
    let notes: Vec<String> = done
        .iter()
        .map(|step| escape::lines(&step.notes))
        .filter(|notes| !notes.is_empty())
        .collect();
    if !notes.is_empty() {
        text += &format!("\n\n## Scratchpad\n{}", notes.join("\n"));
    }
    text
}

/// What the owner keeps of an attempt.
#[derive(Default)]
struct Owner {
    notes: String,
    open: Vec<String>,
    focus: Option<String>,
    completed: Vec<String>,
    reads: Vec<(Option<String>, String)>,
    ended: Option<String>,
    ids: Vec<String>,
    turns: usize,
}

impl Owner {
    /// Goes through the messages of an attempt that was broken off, and makes the calls of the
    /// last reply that have no result.
    fn replay(&mut self, stage: &Stage, mut messages: Vec<Message>) -> Vec<Message> {
        let replies: Vec<usize> = (0..messages.len())
            .filter(|at| messages[*at].calls().next().is_some())
            .collect();
        for at in replies {
            let reply = messages[at].clone();
            let next = messages[at + 1..]
                .iter()
                .position(|m| m.results().next().is_none());
            let end = next.map_or(messages.len(), |offset| at + 1 + offset);
            let known = messages[at + 1..end].to_vec();
            let results = self.answer(stage, &reply, &known);
            messages.splice(at + 1..end, results);
        }
        messages
    }

    /// Answers the calls of a reply; results that are known already are kept.
    fn answer(&mut self, stage: &Stage, reply: &Message, known: &[Message]) -> Vec<Message> {
        self.turns += 1;
        assert!(
            reply.calls().next().is_some(),
            "text alone ends nothing: {}",
            reply.text()
        );
        let mut results = Vec::new();
        let focus = self.focus.clone();
        for call in reply.calls() {
            if call.name == "read_file" {
                let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                let path = arguments["path"].as_str().unwrap();
                self.reads.push((focus.clone(), path.to_owned()));
            }
            assert!(!self.ids.contains(&call.id), "{} twice", call.id);
            self.ids.push(call.id.clone());
            let answer = self.call(stage, call);
            let is_known = |message: &&Message| message.results().any(|it| it.call_id == call.id);
            let known = known.iter().find(is_known);
            results.push(known.cloned().unwrap_or_else(|| match answer {
                Ok(text) => Message::tool(&call.id, text, false),
                Err(text) => Message::tool(&call.id, text, true),
            }));
        }
        results
    }

    fn call(&mut self, stage: &Stage, call: &ToolCall) -> Result<String, String> {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        if let Some(error) = (stage.fault)(&call.name, &arguments) {
            return Err(error);
        }
        match call.name.as_str() {
            "step" => self.step(&arguments),
            "scratchpad" => {
                assert_eq!(arguments["mode"], "replace");
                let text = arguments["text"].as_str().unwrap();
                assert!(text.len() <= MAX_NOTES, "{} bytes of notes", text.len());
                self.notes = text.to_owned();
                Ok(format!("notes: {} bytes", text.len()))
            }
            name => tools::call(&stage.root, stage.output_limit, name, &arguments),
        }
    }

    fn step(&mut self, arguments: &Value) -> Result<String, String> {
        if let Some(plan) = arguments["plan"].as_array() {
            let goals: Vec<String> = plan
                .iter()
                .map(|g| g.as_str().unwrap().to_owned())
                .collect();
            assert!(goals.iter().all(|goal| !self.open.contains(goal)));
            self.open.extend(goals);
        }
        if arguments["complete"] == json!(true) {
            let summary = arguments["summary"].as_str().unwrap();
            assert!(!summary.trim().is_empty());
            match self.focus.take() {
                Some(goal) => {
                    self.open.retain(|open| *open != goal);
                    self.completed.push(goal);
                }
                None => {
                    assert!(self.open.is_empty(), "open sub-goals: {:?}", self.open);
                    assert!(arguments.get("focus").is_none());
                    self.ended = Some(summary.to_owned());
                }
            }
        }
        if let Some(focus) = arguments["focus"].as_str() {
            assert!(
                self.open.iter().any(|open| open == focus),
                "no sub-goal {focus}"
            );
            self.focus = Some(focus.to_owned());
        }
        Ok("done".to_owned())
    }
}
