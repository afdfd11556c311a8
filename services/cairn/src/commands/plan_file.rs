//! Plans from files.

use crate::error::CliError;
use cairn_engine::plan::PlanDraft;
use cairn_engine::text::without_bom;
use cairn_planner::JsonPlanParser;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};

/// Most bytes of a plan.
const MOST_BYTES: u64 = 3 * 1024 * 1024;
const FORMAT: &str = "a plan is JSON: {\"order\": \"chain\", \"steps\": [{\"title\": \"…\", \"description\": \"…\"}]}\n\
     a step may also have id, tool, arguments, depends_on (with \"order\": \"graph\"), capabilities, \
     external_id, note";

/// The plan in the file, or with `-` on standard input.
pub(super) async fn read(path: &Path) -> Result<PlanDraft, CliError> {
    let name = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    };
    let from: PathBuf = path.to_owned();
    let text = tokio::task::spawn_blocking(move || read_text(&from)).await;
    let text = text
        .map_err(|error| CliError::chain(&error))?
        .map_err(|error| CliError::usage(format!("cannot read the plan {name}: {error}")))?;
    parse(&name, &text)
}

/// The plan that a text is; `name` says where it is from.
pub(super) fn parse(name: &str, text: &str) -> Result<PlanDraft, CliError> {
    if text.len() as u64 > MOST_BYTES {
        return Err(CliError::usage(format!(
            "the plan {name} has more than {MOST_BYTES} bytes"
        )));
    }
    let plan = JsonPlanParser::strict().read(without_bom(text));
    plan.map_err(|error| {
        let problem = error.for_people();
        CliError::usage(format!("the plan {name} is wrong: {problem}")).hint(FORMAT)
    })
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        stdin().take(MOST_BYTES + 1).read_to_string(&mut text)?;
    } else {
        let file = std::fs::File::open(path)?;
        file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_as_windows_writes_it_is_read() {
        let plan = "{\n\"steps\": [{\"title\": \"Look\", \"description\": \"Look.\"}]}\n";
        let windows = format!("\u{feff}{}", plan.replace('\n', "\r\n"));
        let read = |text: &str| parse("plan.json", text).map_err(|error| error.message);
        let (read, expected) = (read(&windows).unwrap(), read(plan).unwrap());
        assert_eq!(read, expected);
        assert_eq!(read.steps.len(), 1);
    }
}
