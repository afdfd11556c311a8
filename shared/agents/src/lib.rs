//! Agents, skills, instructions and pages of knowledge as files.
//!
//! [`agent::parse`] reads the file of an agent, [`skill::parse`] a `SKILL.md`, and [`instructions::parse`] an
//! `AGENTS.md`, and [`page::parse`] a page of knowledge. All take a path, which only gives a name and a place for messages, and a text. Nothing here
//! reads a file; [`document::decode`] makes a text of bytes. [`resolve::workspace`] reads all files of a folder,
//! and [`resolve::resolve`] gives the definition that a run of an agent uses.
//!
//! Agents are Markdown with front matter, in the fields of Claude Code, opencode, VS Code and Copilot, and
//! Cairn. A field counts in each of its spellings: `max-turns`, `maxTurns` and `max_turns` are one. An unusable
//! field is an error with its line. An unknown field, or one without effect, is a warning with its line.
//!
//! A file may come from a repository that its reader does not trust. So every text takes bounded time and
//! memory, and a file only narrows rights. Where it limits a tool to some arguments, each call of the tool
//! asks a person instead, and a warning says so.

pub mod agent;
mod digest;
pub mod document;
mod fault;
mod fields;
pub mod instructions;
mod limits;
mod metadata;
mod names;
pub mod page;
mod permission;
pub mod resolve;
mod rights;
pub mod skill;
mod tools;
mod yaml;

pub use fault::{AgentError, Fault, Parsed};
pub use limits::{AgentBudgets, AgentCompaction, CairnFields};
pub use names::{MAX_NAME, is_name};
pub use rights::Tools;
pub use tools::of_other_program;
