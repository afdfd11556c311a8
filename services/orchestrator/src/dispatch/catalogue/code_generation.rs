//! The tool that has a model write code. The executor of an attempt carries it out, so no tools service lists it.

use cairn_engine::decide::{CODE_GENERATION, ToolFacts};
use cairn_engine::event::Effect;
use cairn_engine::key::{digest, hex};
use cairn_engine::rules::Answer;
use cairn_proto::event::Effect as WireEffect;
use cairn_proto::executor::OfferedTool;

const DESCRIPTION: &str = "Has a model write code for a task that you describe: for a file that is long or needs \
thought of its own. The result has the path and the text of each file. It writes no file: read the code, and write \
what you keep yourself.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"task":{"type":"string","description":"What the code has to do, with all that its author has to know: the model sees nothing of this conversation."},"paths":{"type":"array","items":{"type":"string"},"description":"Paths that the generated files are to have; the tool writes none of them. Without them the model chooses."}},"required":["task"],"additionalProperties":false}"#;

/// As long as a request to a model may take, with all its retries.
const TIME_LIMIT_MS: u64 = 15 * 60 * 1000;

/// What decisions need to know of it. It only costs what its model costs.
pub(super) fn facts() -> ToolFacts {
    ToolFacts {
        effect: Effect::Pure,
        time_limit_ms: TIME_LIMIT_MS,
        in_process: false,
        digest: own_digest(),
        default: Answer::Allow,
        matchers: Vec::new(),
        deferred: None,
        previews: false,
        is_built_in: true,
        is_confined: false,
        opens: String::new(),
        server: None,
    }
}

/// What models are offered. It is never sent before the owner permits it, because it takes of the run's budgets.
pub(super) fn offered() -> OfferedTool {
    OfferedTool {
        name: CODE_GENERATION.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters_json: PARAMETERS.to_owned(),
        effect: WireEffect::Pure.into(),
        is_allowed: false,
        digest: own_digest(),
        is_deferred: false,
    }
}

fn own_digest() -> String {
    let parts = [CODE_GENERATION, DESCRIPTION, PARAMETERS];
    hex(&digest(&parts.map(str::as_bytes)))
}
