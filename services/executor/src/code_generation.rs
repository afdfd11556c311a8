//! `code_generation_tool`: one request to the model of the attempt, which answers with files. Nothing is written.

use crate::asker::Asker;
use crate::tools::{Call, millis};
use cairn_engine::failure::Failure;
use cairn_engine::message::{FinishReason, Message, Usage};
use cairn_model::{ChatReply, ChatRequest, prompt};
use cairn_proto::executor::CallResult;
use cairn_rpc::text::is_hidden;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

/// Most paths that a call may name, and most files of an answer.
const MOST_FILES: usize = 64;
/// The arguments of a call.
const TASK: &str = "task";
const PATHS: &str = "paths";

/// Carries out a call, and returns its result.
pub(crate) async fn carry_out(asker: &Asker<'_>, call: &Call) -> CallResult {
    let began = Instant::now();
    let mut result = match Task::read(&call.arguments) {
        Ok(task) => write(asker, &task).await,
        Err(problem) => failed("InvalidArguments", &problem),
    };
    result.call = Some(call.at.into());
    result.duration_ms = millis(began.elapsed());
    result
}

fn failed(reason: &str, problem: &str) -> CallResult {
    CallResult {
        output: format!("{reason}: {problem}"),
        is_error: true,
        reason: reason.to_owned(),
        ..CallResult::default()
    }
}

/// What is to be written.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    text: String,
    /// The files; empty if the model chooses them.
    paths: Vec<String>,
}

impl Task {
    /// Reads the arguments of a call. The error says what is wrong with them, for the model.
    fn read(arguments: &str) -> Result<Self, String> {
        let arguments = serde_json::from_str(arguments)
            .map_err(|error| format!("the arguments are no JSON object: {error}"))?;
        let arguments: Map<String, Value> = arguments;
        let is_unknown = |name: &&String| ![TASK, PATHS].contains(&name.as_str());
        if let Some(name) = arguments.keys().find(is_unknown) {
            return Err(format!("{name:?} is no argument (allowed: task, paths)"));
        }
        let text = arguments.get(TASK).and_then(Value::as_str);
        let text = text.unwrap_or_default().trim();
        if text.is_empty() {
            return Err("task is missing (allowed: a text that says what to write)".to_owned());
        }
        let paths = match arguments.get(PATHS) {
            None | Some(Value::Null) => Vec::new(),
            Some(paths) => read_paths(paths)?,
        };
        let text = text.to_owned();
        Ok(Self { text, paths })
    }
}

fn read_paths(paths: &Value) -> Result<Vec<String>, String> {
    let wrong = |problem: &str| {
        format!("paths {problem} (allowed: at most {MOST_FILES} relative paths of files)")
    };
    let paths = paths.as_array().ok_or_else(|| wrong("is no list"))?;
    if paths.len() > MOST_FILES {
        return Err(wrong(&format!("has {} items", paths.len())));
    }
    let path = |path: &Value| {
        let path = path
            .as_str()
            .ok_or_else(|| wrong("has an item that is no text"))?;
        let path = plain(path);
        match path_fault(path) {
            Some(fault) => Err(wrong(&format!("has {path:?}, which {fault}"))),
            None => Ok(path.to_owned()),
        }
    };
    paths.iter().map(path).collect()
}

/// Asks the model, and once more if its answer cannot be used.
async fn write(asker: &Asker<'_>, task: &Task) -> CallResult {
    let mut request = ChatRequest::new([
        Message::system(asker.prompts.code_generation()),
        Message::user(prompt::code_request(&task.text, &task.paths)),
    ]);
    let (mut usage, mut model) = (Usage::default(), asker.model.describe().name);
    let mut outcome = Err(String::new());
    for may_ask_again in [true, false] {
        let answered = asker.ask(&request, None).await;
        usage.add(&answered.usage().unwrap_or_default());
        let reply = match answered.outcome {
            Ok(reply) => reply,
            Err(error) => {
                outcome = Err(error.to_string());
                break;
            }
        };
        model.clone_from(&reply.model);
        let fault = match read_reply(&reply, task) {
            Ok(files) => {
                outcome = Ok(files);
                break;
            }
            Err(fault) => fault,
        };
        outcome = Err(fault.to_string());
        let Fault::Mendable(problem) = fault else {
            break;
        };
        if may_ask_again {
            tracing::warn!(%problem, "generated files returned to the model");
            match asker.prompts.code_repair(&problem) {
                Ok(repair) => ask_for_repair(&mut request, reply.message, repair),
                Err(error) => {
                    outcome = Err(error.to_string());
                    break;
                }
            }
        }
    }
    let result = match outcome {
        Ok(files) => CallResult {
            output: format!("{:#}", json!({ "files": files })),
            ..CallResult::default()
        },
        Err(problem) => failed("ExecutionFailed", &problem),
    };
    CallResult {
        usage: Some(usage.into()),
        provider: asker.model.describe().provider,
        model,
        ..result
    }
}

/// Why a reply cannot be used.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// The model may answer better once it reads this.
    Mendable(String),
    /// The model refused.
    Refused,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mendable(problem) => write!(
                f,
                "the model's answer cannot be used, because it {problem}; describe the task in other words, or \
                 write the files with write_file"
            ),
            Self::Refused => write!(f, "{}", Failure::refused_by_model()),
        }
    }
}

/// Adds an answer that cannot be used, and what is wrong with it. Calls that it asks for are not made, and a request
/// with calls that have no results would be refused.
fn ask_for_repair(request: &mut ChatRequest, answer: Message, repair: String) {
    if answer.calls().next().is_none() {
        request.messages.push(Arc::new(answer));
    }
    request.messages.push(Arc::new(Message::user(repair)));
}

/// The files that a reply has, as the result shows them.
fn read_reply(reply: &ChatReply, task: &Task) -> Result<Vec<Value>, Fault> {
    match reply.finish {
        FinishReason::Refusal => Err(Fault::Refused),
        FinishReason::Length => {
            let problem = "is cut at the limit of its length: write fewer or shorter files";
            Err(Fault::Mendable(problem.to_owned()))
        }
        _ => read_files(&reply.message.text(), task).map_err(Fault::Mendable),
    }
}

/// Reads the JSON object of an answer. What stands around it, such as a code fence, is passed over. The error says what
/// the answer does wrong.
fn read_files(text: &str, task: &Task) -> Result<Vec<Value>, String> {
    let begin = text.find('{').ok_or("has no JSON object")?;
    let json = serde_json::Deserializer::from_str(&text[begin..]);
    let object: Map<String, Value> = match json.into_iter().next() {
        Some(Ok(object)) => object,
        Some(Err(error)) => return Err(format!("is no JSON object: {error}")),
        None => return Err("has no JSON object".to_owned()),
    };
    let files = object.get("files").and_then(Value::as_array);
    let files = files.ok_or("has no list \"files\"")?;
    if files.is_empty() || files.len() > MOST_FILES {
        return Err(format!(
            "has {} files; 1 to {MOST_FILES} are allowed",
            files.len()
        ));
    }
    let (mut read, mut seen) = (Vec::with_capacity(files.len()), HashSet::new());
    for (at, file) in files.iter().enumerate() {
        let (path, text) = read_file(at, file, task)?;
        if !seen.insert(path) {
            return Err(format!("has the path {path:?} twice"));
        }
        read.push(json!({"path": path, "text": text}));
    }
    Ok(read)
}

/// Path and text of a file of an answer.
fn read_file<'a>(at: usize, file: &'a Value, task: &Task) -> Result<(&'a str, &'a str), String> {
    let field = |name: &str| {
        let text = file.get(name).and_then(Value::as_str);
        text.ok_or_else(|| format!("has no text in files[{at}].{name}"))
    };
    let (path, text) = (plain(field("path")?), field("text")?);
    if let Some(fault) = path_fault(path) {
        return Err(format!("has the path {path:?}, which {fault}"));
    }
    if !task.paths.is_empty() && !task.paths.iter().any(|asked| asked == path) {
        let asked = task.paths.join(", ");
        return Err(format!(
            "has the path {path:?}, which the task does not list; it lists: {asked}"
        ));
    }
    Ok((path, text))
}

/// The path without `./` before it.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./")
}

/// What is wrong with the path of a file.
fn path_fault(path: &str) -> Option<&'static str> {
    let separators = ['/', '\\'];
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    match () {
        () if path.is_empty() => Some("is empty"),
        () if path.starts_with(separators) || has_drive => Some("is absolute"),
        () if path.split(separators).any(|part| part == "..") => Some("leads out with \"..\""),
        () if path.ends_with(separators) => Some("names a folder"),
        () if path.contains(is_hidden) => Some("has a control character"),
        () => None,
    }
}
