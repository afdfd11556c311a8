//! The files for a task: each says what it is for, and no more. A rule cannot write a program.

use super::words::is_file_name;
use crate::prompt::{CODE_GENERATION, read_code_request};
use cairn_engine::message::{Message, Role};
use cairn_engine::text::one_line;
use serde_json::{Value, json};
use std::path::{Component, Path};
use std::sync::Arc;

/// The file that a task gets which names none.
const DEFAULT_PATH: &str = "generated.txt";
/// Most characters of a task that a file quotes.
const MAX_LINE: usize = 400;

/// The answer, if the messages ask for files.
pub(super) fn wanted(messages: &[Arc<Message>]) -> Option<String> {
    let system = messages.first().filter(|it| it.role == Role::System)?;
    if !system.text().starts_with(CODE_GENERATION.trim_end()) {
        return None;
    }
    let request = messages.iter().find(|it| it.role == Role::User)?.said();
    let (task, mut paths) = read_code_request(&request);
    if paths.is_empty() {
        paths.push(named_file(task).unwrap_or(DEFAULT_PATH));
    }
    let task = one_line(task, MAX_LINE);
    let file = |path: &str| json!({"path": path, "text": text(path, &task)});
    let files: Vec<Value> = paths.into_iter().map(file).collect();
    Some(format!("{:#}", json!({ "files": files })))
}

/// The first file that the task names.
fn named_file(task: &str) -> Option<&str> {
    let is_around = |c: char| c.is_whitespace() || "\"'`()[]<>,;:!?“”".contains(c);
    let words = task.split(is_around).map(|word| word.trim_end_matches('.'));
    let is_inside = |word: &&str| {
        let mut parts = Path::new(word).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    words
        .filter(|word| is_file_name(&word.to_lowercase()) && !word.contains('\\'))
        .find(is_inside)
}

/// A file whose form fits its name.
fn text(path: &str, task: &str) -> String {
    let origin = "Written by Cairn's offline model, which follows fixed rules.";
    let comment = match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "rs" | "js" | "javascript" | "ts" | "typescript" | "tsx" | "go" | "java" | "kt" | "c"
        | "h" | "cc" | "cpp" | "hpp" => "// ",
        "py" | "python" | "sh" | "toml" | "yaml" | "yml" | "rb" | "cfg" | "conf" => "# ",
        "sql" => "-- ",
        "json" => return format!("{:#}\n", json!({"origin": origin, "task": task})),
        _ => "",
    };
    format!("{comment}{origin}\n{comment}Task: {task}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::code_request;

    fn files(task: &str, paths: &[&str]) -> Vec<(String, String)> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let messages = [
            Message::system(CODE_GENERATION),
            Message::user(code_request(task, &paths)),
        ];
        let answer = wanted(&messages.map(Arc::new)).expect("files");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let text = |file: &Value, field: &str| file[field].as_str().expect("a text").to_owned();
        let files = answer["files"].as_array().expect("a list").iter();
        files
            .map(|file| (text(file, "path"), text(file, "text")))
            .collect()
    }

    #[test]
    fn a_task_gets_the_files_that_it_lists_or_names() {
        let listed = files("Add two\nnumbers.", &["src/add.rs", "a b.json"]);
        assert_eq!(listed[0].0, "src/add.rs");
        assert!(listed[0].1.ends_with("// Task: Add two numbers.\n"));
        let second: Value = serde_json::from_str(&listed[1].1).expect("JSON");
        assert_eq!(second["task"], "Add two numbers.");

        let path = |task: &str| files(task, &[]).remove(0).0;
        assert_eq!(path("Write `src/hello.py`."), "src/hello.py");
        for task in ["Say hello.", "Write ../x.py", "Write /etc/x.py"] {
            assert_eq!(path(task), DEFAULT_PATH, "{task}");
        }
    }

    #[test]
    fn other_conversations_get_no_files() {
        let messages = [Message::system("Be brief."), Message::user("Write a.py.")];
        assert_eq!(wanted(&messages.map(Arc::new)), None);
        assert_eq!(wanted(&[]), None);
    }
}
