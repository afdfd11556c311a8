//! `[agents]` and `[skills]`: the files of the workspace that define agents, skills and instructions.

use serde::{Deserialize, Serialize};

/// Agents as files of the workspace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSettings {
    /// Files of the workspace define agents, skills and instructions, once a person confirmed them. Otherwise
    /// none of them is read.
    pub enabled: bool,
    /// Folders of the workspace that have agents as files. Of two agents with one name the first counts.
    pub paths: Vec<String>,
}

/// Skills as folders of the workspace.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillSettings {
    /// Folders of the workspace that have skills, each in a folder of its name. Of two the first counts.
    pub paths: Vec<String>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let config = cairn_tools::Config::default();
        Self {
            enabled: config.agents_enabled,
            paths: config.agent_paths,
        }
    }
}

impl Default for SkillSettings {
    fn default() -> Self {
        Self {
            paths: cairn_tools::Config::default().skill_paths,
        }
    }
}
