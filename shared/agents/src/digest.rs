//! Digests of definitions: equal digests, equal definitions.
//!
//! They are of canonical JSON that is written here field by field, so that a field with another name in the
//! code, or a new one that a file does not use, changes no digest.

use crate::agent::{AgentFile, Mode};
use crate::limits::CairnFields;
use crate::rights::Tools;
use crate::skill::SkillFile;
use cairn_engine::canonical::to_canonical_json;
use cairn_engine::command::WhenFull;
use cairn_engine::key::{digest, hex};
use serde_json::{Map, Value};

/// Goes into every digest, so that a change of the rule changes all of them at once.
const VERSION: &[u8] = b"1";

/// The fields of a definition that say something.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.put(name, text);
        }
    }

    fn list(&mut self, name: &str, list: &[String]) {
        if !list.is_empty() {
            self.put(name, list.to_vec());
        }
    }

    fn some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            self.put(name, true);
        }
    }

    fn object(&mut self, name: &str, object: Self) {
        if !object.0.is_empty() {
            self.put(name, object.0);
        }
    }

    fn digest(self, domain: &[u8]) -> String {
        let text = to_canonical_json(&Value::Object(self.0));
        hex(&digest(&[domain, VERSION, text.as_bytes()]))
    }
}

impl AgentFile {
    /// Tells one definition from another, in hexadecimal. Its path does not count, nor how its file writes it.
    pub fn digest(&self) -> String {
        let mut agent = Object::default();
        agent.text("name", &self.name);
        agent.some("title", self.title.clone());
        agent.text("description", &self.description);
        agent.text("prompt", &self.prompt);
        agent.list("model", &self.model);
        if let Tools::Only(tools) = &self.tools {
            agent.put("tools", tools.clone());
        }
        agent.list("denied", &self.denied);
        agent.list("ask", &self.ask);
        agent.some("max_turns", self.max_turns);
        agent.some("max_tool_turns", self.max_tool_turns);
        agent.some("temperature_milli", self.temperature_milli);
        agent.some("effort", self.effort.map(|effort| effort.name()));
        if self.mode != Mode::All {
            agent.put("mode", self.mode.name());
        }
        agent.flag("hidden", self.is_hidden);
        agent.flag("disabled", self.is_disabled);
        agent.some("skills", self.skills.clone());
        agent.some("agents", self.agents.clone());
        agent.list("mcp_servers", &self.mcp_servers);
        agent.list("hooks", &self.hooks);
        agent.object("metadata", metadata(&self.metadata));
        agent.object("cairn", own(&self.cairn));
        agent.digest(b"cairn.agent")
    }
}

impl SkillFile {
    /// Tells one definition from another, in hexadecimal. Further files of its folder do not count.
    pub fn digest(&self) -> String {
        let mut skill = Object::default();
        skill.text("name", &self.name);
        skill.text("description", &self.description);
        skill.some("license", self.license.clone());
        skill.some("compatibility", self.compatibility.clone());
        skill.list("allowed_tools", &self.allowed_tools);
        skill.flag("unlisted", !self.is_listed);
        skill.object("metadata", metadata(&self.metadata));
        skill.text("body", &self.body);
        skill.digest(b"cairn.skill")
    }
}

fn metadata<'a>(metadata: impl IntoIterator<Item = (&'a String, &'a String)>) -> Object {
    let mut object = Object::default();
    for (name, value) in metadata {
        object.put(name, value.as_str());
    }
    object
}

fn own(fields: &CairnFields) -> Object {
    let mut budgets = Object::default();
    budgets.some("tokens", fields.budgets.tokens);
    budgets.some("cost_nano_usd", fields.budgets.cost_nano_usd);
    budgets.some("time_ms", fields.budgets.time_ms);
    budgets.some("calls", fields.budgets.calls);
    let mut compaction = Object::default();
    compaction.some("at_permille", fields.compaction.at_permille);
    compaction.some("keep_turns", fields.compaction.keep_turns);
    let when_full = fields.compaction.when_full.map(|when| match when {
        WhenFull::Compact => "compact",
        WhenFull::Refuse => "refuse",
    });
    compaction.some("when_full", when_full);
    let mut own = Object::default();
    own.list("capabilities", &fields.capabilities);
    own.object("budgets", budgets);
    own.object("compaction", compaction);
    own.some("window", fields.window);
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent, skill};
    use std::collections::BTreeSet;

    fn of(text: &str) -> String {
        agent::parse("a.md", text).unwrap().value.digest()
    }

    #[test]
    fn the_same_definition_in_another_dialect_has_the_same_digest() {
        let claude = of("---\ndescription: D\ntools: Read, Grep\nmaxTurns: 5\n---\nPrompt\n");
        let opencode = "---\r\nsteps: 5\r\ndescription: 'D'\r\ntools:\r\n  \"*\": false\r\n  grep: true\r\n  \
            read: true\r\n---\r\n\r\nPrompt";
        assert_eq!(claude, of(opencode));
        assert_eq!(claude.len(), 64);
    }

    #[test]
    fn every_field_changes_the_digest() {
        let fields = [
            "",
            "name: b",
            "name: B C",
            "description: D",
            "prompt: P",
            "model: m",
            "tools: []",
            "tools: Read",
            "disallowed-tools: Read",
            "permission: {read: ask}",
            "max-turns: 5",
            "max-tool-turns: 5",
            "temperature: 0",
            "effort: low",
            "mode: primary",
            "hidden: true",
            "disable: true",
            "skills: []",
            "skills: x",
            "agents: []",
            "mcp-servers: x",
            "hooks: x",
            "metadata: {a: b}",
            "cairn: {capabilities: [x]}",
            "cairn: {budgets: {tokens: 5}}",
            "cairn: {budgets: {calls: 5}}",
            "cairn: {compaction: {at: 0.5}}",
            "cairn: {compaction: {when-full: compact}}",
            "cairn: {window: 20}",
        ];
        let digests: BTreeSet<String> = fields.map(|it| of(&format!("---\n{it}\n---\n"))).into();
        assert_eq!(digests.len(), fields.len());
    }

    #[test]
    fn a_digest_never_changes() {
        // A run names its definition by it, in a journal that outlives the program.
        assert_eq!(
            of("---\nname: a\ntools: Read\n---\nP"),
            hex(&digest(&[
                b"cairn.agent",
                b"1",
                br#"{"name":"a","prompt":"P","tools":["read_file"]}"#
            ]))
        );
        let text = "---\nname: s\ndescription: D\nmetadata: {v: 1}\n---\nB";
        let skill = skill::parse("s/SKILL.md", text).unwrap().value;
        let json = br#"{"body":"B","description":"D","metadata":{"v":"1"},"name":"s"}"#;
        assert_eq!(skill.digest(), hex(&digest(&[b"cairn.skill", b"1", json])));
    }
}
