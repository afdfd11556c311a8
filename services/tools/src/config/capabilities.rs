//! `[capabilities]`: the tools that each capability takes.

use crate::error::Fault;
use crate::registry::is_name;
use cairn_engine::decide::CODE_GENERATION;
use cairn_engine::pool::{MAX_LEVEL, is_capability};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

/// The capabilities without any settings, in the order in which they are shown.
const DEFAULTS: [(&str, &[&str]); 5] = [
    ("web_search", &["web_search"]),
    ("file_ops", &["read_file", "write_file"]),
    ("code_generation", &[CODE_GENERATION]),
    ("shell_exec", &["shell_exec"]),
    ("report_generation", &["report_generator"]),
];
/// Most capabilities.
const MOST: usize = 256;
/// Most tools of one capability.
const MOST_TOOLS: usize = 64;
/// The levels that a capability can have.
const LEVELS: RangeInclusive<u32> = 1..=MAX_LEVEL;
/// What a capability can be.
const ALLOWED: &str = "a list of tools, or a table with tools and level";
/// What its name can be.
const NAMES: &str = "1 to 64 lower-case letters, digits, '_', '-', '.' and ':'";

/// The tools that each capability takes, by its name. The settings change the defaults: an entry replaces the one of
/// its name, and one without tools removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Capabilities(BTreeMap<String, CapabilityConfig>);

/// What a capability takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityConfig {
    /// The tools, all of which an executor must be able to use.
    pub tools: Vec<String>,
    /// The level at which executors have it.
    pub level: u32,
}

impl CapabilityConfig {
    /// The capability of these tools, at the lowest level.
    pub fn of(tools: Vec<String>) -> Self {
        let level = *LEVELS.start();
        Self { tools, level }
    }
}

impl Capabilities {
    /// The defaults, with these entries in place of those of their names.
    pub fn with(entries: impl IntoIterator<Item = (String, CapabilityConfig)>) -> Self {
        let mut all = Self::default();
        all.0.extend(entries);
        all
    }

    /// Those that take a tool: first the default ones in their order, then the others by name.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, &CapabilityConfig)> {
        let is_default = |name: &str| DEFAULTS.iter().any(|(default, _)| *default == name);
        let defaults = DEFAULTS.iter();
        let defaults = defaults.filter_map(|(name, _)| self.0.get_key_value(*name));
        let others = self.0.iter().filter(move |(name, _)| !is_default(name));
        let rows = defaults.chain(others);
        rows.filter(|(_, config)| !config.tools.is_empty())
            .map(|(name, config)| (name.as_str(), config))
    }

    pub(super) fn validate(&self, faults: &mut Vec<Fault>) {
        let rows = self.rows().count();
        if rows > MOST {
            let problem = format!("has {rows} capabilities");
            faults.push(Fault::new(
                "capabilities",
                problem,
                format!("at most {MOST}"),
            ));
        }
        for (name, config) in &self.0 {
            if !is_capability(name) {
                faults.push(Fault::new(at(name), "is no name of a capability", NAMES));
            }
            config.validate(&at(name), faults);
        }
    }
}

impl CapabilityConfig {
    fn validate(&self, at: &str, faults: &mut Vec<Fault>) {
        if self.tools.len() > MOST_TOOLS {
            let problem = format!("names {} tools", self.tools.len());
            faults.push(Fault::new(at, problem, format!("at most {MOST_TOOLS}")));
        }
        if let Some(tool) = self.tools.iter().find(|tool| !is_name(tool)) {
            let problem = format!("names the tool '{}'", tool.escape_debug());
            let allowed = "names of tools: 1 to 64 letters, digits, '_' and '-'";
            faults.push(Fault::new(at, problem, allowed));
        }
        if !LEVELS.contains(&self.level) {
            let allowed = format!("{} to {}", LEVELS.start(), LEVELS.end());
            let problem = format!("is {}", self.level);
            faults.push(Fault::new(format!("{at}.level"), problem, allowed));
        }
    }
}

/// Where the settings have a capability. A name that TOML quotes is quoted.
fn at(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !name.is_empty() && name.bytes().all(is_plain) {
        true => format!("capabilities.{name}"),
        false => format!("capabilities.{name:?}"),
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        let of = |(name, tools): (&str, &[&str])| {
            let tools = tools.iter().map(|tool| (*tool).to_owned());
            (name.to_owned(), CapabilityConfig::of(tools.collect()))
        };
        Self(DEFAULTS.into_iter().map(of).collect())
    }
}

impl<'de> Deserialize<'de> for Capabilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: BTreeMap<String, CapabilityConfig> = BTreeMap::deserialize(deserializer)?;
        Ok(Self::with(entries))
    }
}

impl Serialize for CapabilityConfig {
    /// As settings write it: a list, unless there is a level.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.level == *LEVELS.start() {
            return self.tools.serialize(serializer);
        }
        let mut table = serializer.serialize_struct("Capability", 2)?;
        table.serialize_field("tools", &self.tools)?;
        table.serialize_field("level", &self.level)?;
        table.end()
    }
}

impl<'de> Deserialize<'de> for CapabilityConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads what settings write: a list, or a table.
struct Written;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    tools: Vec<String>,
    #[serde(default = "lowest")]
    level: u32,
}

fn lowest() -> u32 {
    *LEVELS.start()
}

impl<'de> Visitor<'de> for Written {
    type Value = CapabilityConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALLOWED)
    }

    /// As a variable of the environment has it: names with commas between them.
    fn visit_str<E: Error>(self, text: &str) -> Result<CapabilityConfig, E> {
        let tools = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        Ok(CapabilityConfig::of(tools.map(str::to_owned).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, tools: A) -> Result<CapabilityConfig, A::Error> {
        let tools = Vec::deserialize(SeqAccessDeserializer::new(tools));
        tools.map(CapabilityConfig::of)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<CapabilityConfig, A::Error> {
        let Table { tools, level } = Table::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(CapabilityConfig { tools, level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Capabilities {
        toml::from_str(toml).expect("it can be read")
    }

    fn faults(toml: &str) -> Vec<String> {
        let mut faults = Vec::new();
        read(toml).validate(&mut faults);
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn an_entry_replaces_a_default_and_an_empty_one_removes_it() {
        let names = |all: &Capabilities| -> Vec<String> {
            let rows = all.rows();
            rows.map(|(name, it)| format!("{name}>={}: {}", it.level, it.tools.join(" ")))
                .collect()
        };
        assert_eq!(
            names(&Capabilities::default()),
            [
                "web_search>=1: web_search",
                "file_ops>=1: read_file write_file",
                "code_generation>=1: code_generation_tool",
                "shell_exec>=1: shell_exec",
                "report_generation>=1: report_generator",
            ]
        );
        let changed = read(
            "a_gpu = { tools = ['train', 'infer'], level = 5 }\nweb_search = ['brave__search']\n\
             shell_exec = []\nzip = ['zip']\n'region:eu' = ['here']\n",
        );
        assert_eq!(
            names(&changed),
            [
                "web_search>=1: brave__search",
                "file_ops>=1: read_file write_file",
                "code_generation>=1: code_generation_tool",
                "report_generation>=1: report_generator",
                "a_gpu>=5: train infer",
                "region:eu>=1: here",
                "zip>=1: zip",
            ]
        );
        let written = serde_json::to_value(&changed).expect("it can be written");
        let again: Capabilities = serde_json::from_value(written).expect("it can be read");
        assert_eq!(again, changed);
    }

    #[test]
    fn faults_name_the_entry_the_problem_and_what_is_allowed() {
        assert_eq!(faults(""), [""; 0]);
        assert_eq!(
            faults("Gpu = ['a']"),
            [format!(
                "capabilities.Gpu is no name of a capability (allowed: {NAMES})"
            )]
        );
        assert_eq!(
            faults("'gpu>=5' = ['a']"),
            [format!(
                "capabilities.\"gpu>=5\" is no name of a capability (allowed: {NAMES})"
            )]
        );
        assert_eq!(
            faults("gpu = ['a b']"),
            [
                "capabilities.gpu names the tool 'a b' (allowed: names of tools: 1 to 64 letters, digits, \
                 '_' and '-')"
            ]
        );
        assert_eq!(
            faults("gpu = { tools = ['a'], level = 0 }"),
            ["capabilities.gpu.level is 0 (allowed: 1 to 1000000)"]
        );
        let many: String = (0..252).map(|at| format!("c{at} = ['a']\n")).collect();
        assert_eq!(
            faults(&many),
            ["capabilities has 257 capabilities (allowed: at most 256)"]
        );
        let without = format!("{many}shell_exec = []");
        assert_eq!(faults(&without), [""; 0], "what is removed does not count");
        for wrong in [
            "gpu = 5",
            "gpu = [5]",
            "gpu = { level = 5 }",
            "gpu = { tools = ['a'], levels = 5 }",
            "gpu = { tools = ['a'], level = -1 }",
        ] {
            assert!(toml::from_str::<Capabilities>(wrong).is_err(), "{wrong}");
        }
    }
}
