//! Tools, sources, rules and approvals as text and as JSON. What servers say is escaped.

mod source;

use super::live::wrap;
use super::scopes::granted_words;
use super::style::Style;
use super::table::{Column, Table, cut};
use super::time::utc;
use crate::settings::LeftOut;
use cairn_engine::rules::{Answer, Rule};
use cairn_proto::event::grant_scope::Kind;
use cairn_proto::event::{CallMedia, Condition, Effect, GrantScope};
use cairn_proto::orchestrator::{Approval, ListToolsResponse};
use cairn_proto::tools::{RuleAnswer, ToolRule, ToolSource, ToolSourceState, ToolSpec};
use cairn_rpc::text::{clip, escape};
use cairn_tools::tool::{BUILT_IN, PROGRAM};
use serde_json::{Value, json};
use std::path::Path;

/// A terminal that is narrower shows fewer columns.
const WIDE: usize = 76;
/// Columns that the other columns of a wide table and of a narrow one take beside the names.
const BESIDE: [usize; 2] = [50, 24];
/// Most bytes of one text of a server in a list.
const MOST_TEXT: usize = 400;
/// Sources of tools that are the operator's own.
const OWN: [&str; 2] = [BUILT_IN, PROGRAM];

/// Whether a source has the built-in tools or the programs of the settings.
pub fn is_own(source: &str) -> bool {
    OWN.contains(&source)
}

/// All tools and sources, for people. At most `width` characters a line.
pub fn lines(
    listed: &ListToolsResponse,
    left_out: &[LeftOut],
    style: Style,
    width: Option<usize>,
) -> Vec<String> {
    let mut lines = match listed.tools.is_empty() {
        true => vec!["there are no tools".to_owned()],
        false => tools(listed, width).lines(width),
    };
    if let Some(line) = offered_line(listed) {
        lines.extend(broken(&line, "", width));
    }
    lines.push(String::new());
    lines.extend(source::table(listed, left_out).lines(width));
    let disabled = listed.tools.iter().filter(|tool| !tool.disabled.is_empty());
    let notes = listed.sources.iter().flat_map(source::notes);
    let unusable = left_out.iter().filter_map(source::left_out_note);
    for (line, hints) in notes.chain(unusable).chain(disabled.map(disabled_note)) {
        lines.push(String::new());
        lines.extend(
            broken(&line, "! ", width)
                .iter()
                .map(|line| style.asks(line)),
        );
        lines.extend(hints.iter().flat_map(|hint| broken(hint, "  ", width)));
    }
    lines
}

/// Which tools a model has at once, if these are not all.
fn offered_line(listed: &ListToolsResponse) -> Option<String> {
    let callable = listed.tools.iter().zip(answers(listed));
    let callable =
        callable.filter(|(tool, answer)| tool.disabled.is_empty() && *answer != RuleAnswer::Deny);
    let (own, of_servers): (Vec<_>, Vec<_>) = callable.partition(|(tool, _)| is_own(&tool.source));
    let all = own.len() + of_servers.len();
    (all > listed.offered as usize && !of_servers.is_empty()).then(|| {
        format!(
            "{all} tools are more than tools.offered = {}: a model is offered the built-in tools and your \
             programs, and finds the {} of servers with search_tools",
            listed.offered,
            of_servers.len()
        )
    })
}

/// One text in lines that begin so, and are continued with blanks.
fn broken(text: &str, before: &str, width: Option<usize>) -> Vec<String> {
    let columns = width.map_or(usize::MAX, |width| {
        width.saturating_sub(before.len()).max(20)
    });
    let lines = wrap(text, columns).into_iter().enumerate();
    let begin = |at| {
        if at == 0 {
            before.to_owned()
        } else {
            " ".repeat(before.len())
        }
    };
    lines.map(|(at, line)| begin(at) + &line).collect()
}

fn disabled_note(tool: &ToolSpec) -> (String, Vec<String>) {
    let (name, why) = (escape(&tool.name), clip(&tool.disabled, MOST_TEXT));
    let hint = format!("look at it, and allow it with: cairn tools allow {name}");
    // What is no server's is turned off by the settings, and the reason says what helps.
    let hints = (!is_own(&tool.source)).then_some(hint);
    (
        format!("{name} is disabled: {why}"),
        hints.into_iter().collect(),
    )
}

fn tools(listed: &ListToolsResponse, width: Option<usize>) -> Table {
    let is_wide = width.is_none_or(|width| width >= WIDE);
    let columns = [
        (true, Column::Left("TOOL")),
        (is_wide, Column::Left("SOURCE")),
        (is_wide, Column::Left("EFFECT")),
        (true, Column::Left("RULE")),
        (true, Column::Left("STATE")),
    ];
    let shown = columns.map(|(is_shown, _)| is_shown);
    let columns = columns.into_iter().filter(|(is_shown, _)| *is_shown);
    let mut table = Table::new(columns.map(|(_, column)| column).collect::<Vec<_>>());
    let beside = BESIDE[usize::from(!is_wide)];
    let most = width.map_or(usize::MAX, |width| width.saturating_sub(beside).max(16));
    for (tool, answer) in listed.tools.iter().zip(answers(listed)) {
        let cells = [
            cut(&escape(&tool.name), most),
            cut(&escape(&tool.source), 16),
            effect(tool).to_owned(),
            answer_name(answer).to_owned(),
            state(listed, tool).to_owned(),
        ];
        let cells = cells
            .into_iter()
            .zip(shown)
            .filter(|(_, is_shown)| *is_shown);
        table.cells(cells.map(|(cell, _)| cell));
    }
    table
}

fn answers(listed: &ListToolsResponse) -> impl Iterator<Item = RuleAnswer> {
    let answers = listed.answers.iter().copied();
    let answers = answers.map(|it| RuleAnswer::try_from(it).unwrap_or_default());
    answers.chain(std::iter::repeat(RuleAnswer::Unspecified))
}

/// What becomes of calls of a tool, in a word.
fn answer_name(answer: RuleAnswer) -> &'static str {
    match answer {
        RuleAnswer::Allow => "allow",
        RuleAnswer::Ask => "ask",
        RuleAnswer::Deny => "deny",
        RuleAnswer::Unspecified => "depends",
    }
}

fn effect(tool: &ToolSpec) -> &'static str {
    match tool.effect() {
        Effect::Pure => "pure",
        Effect::Idempotent => "idempotent",
        Effect::State => "state",
        Effect::Effectful | Effect::Unspecified => "effectful",
    }
}

/// Whether a tool can be called now, in a word.
fn state(listed: &ListToolsResponse, tool: &ToolSpec) -> &'static str {
    if !tool.disabled.is_empty() {
        return "disabled";
    }
    let source = listed
        .sources
        .iter()
        .find(|source| source.name == tool.source);
    source.map_or("ready", |source| source::state(source.state()))
}

/// What is being waited for, in one line.
pub fn starting_line(names: &[String], width: Option<usize>) -> String {
    let names = clip(&names.join(", "), MOST_TEXT);
    let line = format!("… waiting for servers to start: {names}");
    cut(&line, width.unwrap_or(usize::MAX))
}

/// Each source and each tool as JSON.
pub fn json_lines(listed: &ListToolsResponse, left_out: &[LeftOut]) -> Vec<Value> {
    let sources = listed.sources.iter().map(source::json);
    let sources = sources.chain(left_out.iter().map(source::left_out_json));
    let tools = listed
        .tools
        .iter()
        .zip(answers(listed))
        .map(|(tool, answer)| {
            json!({
                "kind": "tool",
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "source": tool.source,
                "effect": effect(tool),
                "rule": answer_name(answer),
                "state": state(listed, tool),
                "disabled": tool.disabled,
                "digest": tool.digest,
                "parameters": parameters(tool),
            })
        });
    sources.chain(tools).collect()
}

/// The schema of the arguments; null if the server sent none that can be read.
fn parameters(tool: &ToolSpec) -> Value {
    serde_json::from_str(&tool.parameters_json).unwrap_or_default()
}

/// What a person is asked to allow.
#[derive(Debug)]
pub struct Allowable {
    /// What it is, for people.
    pub lines: Vec<String>,
    /// As it is now.
    pub digest: String,
    /// It comes with Cairn or the settings, and nobody has to allow it.
    pub is_own: bool,
    /// Why no call of it is made; empty otherwise.
    pub disabled: String,
}

/// The tools of a source that wait for a person, too; of a tool there are none.
pub fn disabled_of<'a>(listed: &'a ListToolsResponse, source: &str) -> Vec<&'a str> {
    let tools = listed.tools.iter().filter(|tool| tool.source == source);
    let disabled = tools.filter(|tool| !tool.disabled.is_empty());
    disabled.map(|tool| tool.name.as_str()).collect()
}

/// The source or the tool of this name; none if there is no such one. Nothing of it is cut.
pub fn allowable(listed: &ListToolsResponse, name: &str) -> Option<Allowable> {
    let tool = listed.tools.iter().find(|tool| tool.name == name);
    let source = listed.sources.iter().find(|source| source.name == name);
    let of = source.map_or("", |source| &source.name);
    let of = tool
        .filter(|_| source.is_none())
        .map_or(of, |tool| &tool.source);
    let is_own = is_own(of);
    let (facts, digest) = match (source, tool) {
        (Some(source), _) => (source::facts(source), source.digest.clone()),
        (None, Some(tool)) => {
            let facts = vec![
                ("tool", tool.name.clone()),
                ("source", tool.source.clone()),
                ("says", tool.description.clone()),
                ("effect", effect(tool).to_owned()),
                ("changed", tool.disabled.clone()),
                ("digest", tool.digest.clone()),
            ];
            (facts, tool.digest.clone())
        }
        (None, None) => return None,
    };
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty());
    let lines = facts.map(|(name, text)| format!("  {name:<10}{}", escape(&text)));
    Some(Allowable {
        lines: lines.collect(),
        digest,
        is_own,
        disabled: tool.map(|tool| tool.disabled.clone()).unwrap_or_default(),
    })
}

/// Approvals of further calls as a table.
pub fn approvals(approvals: &[Approval], width: Option<usize>) -> Vec<String> {
    let mut table = Table::new([
        Column::Right("NUMBER"),
        Column::Left("GIVEN"),
        Column::Left("TOOL"),
        Column::Left("CALLS"),
    ]);
    for approval in approvals {
        let calls = match (&approval.scope, approval.when.is_empty()) {
            (Some(scope), _) => granted_words(&approval.tool, scope),
            (None, true) => "without arguments".to_owned(),
            (None, false) => covered(&approval.when),
        };
        let (number, given) = (approval.grant.to_string(), utc(approval.at_unix_ms));
        table.row([&number, &given, &approval.tool, &calls]);
    }
    table.lines(width)
}

/// A scope as JSON.
pub fn scope_json(scope: &GrantScope) -> Value {
    match &scope.kind {
        Some(Kind::Tool(_)) => json!({"kind": "tool"}),
        Some(Kind::Folder(it)) => json!({"kind": "folder", "folder": it.folder}),
        Some(Kind::Prefix(it)) => {
            json!({"kind": "prefix", "words": it.words, "folder": it.folder})
        }
        Some(Kind::Server(it)) => {
            json!({"kind": "server", "name": it.name, "digest": it.digest})
        }
        None => Value::Null,
    }
}

/// An approval of further calls as JSON.
pub fn approval_json(session: &str, approval: &Approval) -> Value {
    json!({
        "session": session,
        "number": approval.grant,
        "tool": approval.tool,
        "tool_digest": approval.tool_digest,
        "when": patterns(&approval.when),
        "scope": approval.scope.as_ref().map(scope_json),
        "agent": approval.agent,
        "given": utc(approval.at_unix_ms),
    })
}

/// A rule in one line.
pub fn rule_line(rule: &ToolRule) -> String {
    let when = rule.when.iter();
    let when = when.map(|it| (it.name.clone(), it.pattern.clone()));
    let answer = match rule.answer() {
        RuleAnswer::Allow => Answer::Allow,
        // As the services read an answer that they do not know.
        RuleAnswer::Ask | RuleAnswer::Unspecified => Answer::Ask,
        RuleAnswer::Deny => Answer::Deny,
    };
    let rule = Rule {
        tool: rule.tool.clone(),
        when: when.collect(),
        agent: (!rule.agent.is_empty()).then(|| rule.agent.clone()),
        answer,
    };
    escape(&rule.to_line()).into_owned()
}

/// A rule as JSON.
pub fn rule_json(rule: &ToolRule) -> Value {
    json!({
        "tool": rule.tool,
        "when": patterns(&rule.when),
        "agent": (!rule.agent.is_empty()).then_some(&rule.agent),
        "answer": answer_name(rule.answer()),
    })
}

/// The calls that conditions cover: `path = docs/**, no host`.
pub fn covered(when: &[Condition]) -> String {
    let parts = when.iter().map(|it| match it.pattern.is_empty() {
        // The call leaves the value out.
        true => format!("no {}", it.name),
        false => format!("{} = {}", it.name, it.pattern),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Conditions as JSON, by the names of their values.
pub fn patterns(when: &[Condition]) -> Value {
    let fields = when
        .iter()
        .map(|it| (it.name.clone(), Value::from(it.pattern.as_str())));
    Value::Object(fields.collect())
}

/// One medium of a result, with its size and the file that it was written to.
pub fn media_line(media: &CallMedia, file: &Path) -> String {
    let name = match media.name.as_str() {
        "" => String::new(),
        name => format!(" {}", clip(name, 100)),
    };
    let (kind, bytes) = (clip(&media.mime_type, 60), media.data.len());
    let file = file.display().to_string();
    format!("[{kind}{name}, {bytes} bytes, saved as {}]", escape(&file))
}

/// The ending of a file with such content; `bin` for what it cannot be read from.
pub fn extension(mime_type: &str) -> String {
    let kind = mime_type.split(';').next().unwrap_or_default();
    let (_, kind) = kind.split_once('/').unwrap_or_default();
    let kind = kind.split('+').next().unwrap_or_default().trim();
    let is_plain = !kind.is_empty() && kind.len() <= 12;
    match is_plain && kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => kind.to_ascii_lowercase(),
        false => "bin".to_owned(),
    }
}

#[cfg(test)]
mod tests;
