//! `cairn agent check`: what is wrong with agent files.

use super::files::{self, Usable};
use super::findings;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use cairn_agents::{AgentError, Fault};
use cairn_engine::text::counted;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The arguments of `cairn agent check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of a folder, the files that end in .md are checked, without those in folders below it. Exit code 1 if a
file has faults. Warnings name what has no effect, or another one than in other programs.

With --json one object for each file: path, name and digest (null with faults), faults and warnings, each
a list of objects with line (0 for the whole file), field, problem and allowed.")]
pub(super) struct Args {
    /// Agent files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// A file with what was found in it.
#[derive(Debug)]
struct Checked {
    path: String,
    outcome: Result<Usable, Vec<Fault>>,
}

impl Checked {
    fn of(path: &str, outcome: Result<Usable, AgentError>) -> Self {
        Self {
            path: path.to_owned(),
            outcome: outcome.map_err(|error| error.faults),
        }
    }

    fn faults(&self) -> &[Fault] {
        match &self.outcome {
            Ok(_) => &[],
            Err(faults) => faults,
        }
    }

    fn warnings(&self) -> &[Fault] {
        match &self.outcome {
            Ok(usable) => &usable.parsed.warnings,
            Err(_) => &[],
        }
    }
}

/// Checks files, and prints what is found.
///
/// # Errors
/// A file has faults.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let checked = tokio::task::spawn_blocking(move || check(&args.paths)).await;
    let checked = checked.map_err(|error| CliError::chain(&error))?;
    let style = Style::new(context.color);
    for file in &checked {
        match context.json {
            true => out::json(&json(file))?,
            false => lines(file, style).iter().try_for_each(|it| out::line(it))?,
        }
    }
    let summary = summary(&checked)?;
    match context.json {
        true => Ok(()),
        false => out::line(&summary),
    }
}

fn check(paths: &[PathBuf]) -> Vec<Checked> {
    let mut checked = Vec::new();
    for path in paths {
        match files::of_path(path) {
            Ok(files) => checked.extend(files.iter().map(|file| {
                let shown = file.display().to_string();
                Checked::of(&shown, files::read(file, None))
            })),
            Err(error) => checked.push(Checked::of(&path.display().to_string(), Err(error))),
        }
    }
    checked
}

fn lines(file: &Checked, style: Style) -> Vec<String> {
    let faults = file.faults().iter();
    let faults = faults.map(|fault| findings::error(&file.path, fault, style));
    let warnings = file.warnings().iter();
    let warnings = warnings.map(|fault| findings::warning(&file.path, fault, style));
    faults.chain(warnings).collect()
}

fn json(file: &Checked) -> Value {
    let finding = |fault: &Fault| {
        json!({
            "line": fault.line,
            "field": fault.field,
            "problem": fault.problem,
            "allowed": fault.allowed,
        })
    };
    let findings = |faults: &[Fault]| faults.iter().map(finding).collect::<Vec<_>>();
    let agent = file
        .outcome
        .as_ref()
        .ok()
        .map(|usable| &usable.parsed.value);
    json!({
        "path": file.path,
        "name": agent.map(|agent| &agent.name),
        "digest": agent.map(|agent| agent.digest()),
        "faults": findings(file.faults()),
        "warnings": findings(file.warnings()),
    })
}

/// How many agents and warnings there are.
fn summary(checked: &[Checked]) -> Result<String, CliError> {
    let wrong = checked.iter().filter(|file| file.outcome.is_err()).count();
    let files = counted(checked.len(), "file");
    if wrong > 0 {
        let verb = if wrong == 1 { "has" } else { "have" };
        return Err(CliError::new(format!("{wrong} of {files} {verb} faults")));
    }
    let warnings: usize = checked.iter().map(|file| file.warnings().len()).sum();
    Ok(match warnings {
        0 => format!("{files} without faults"),
        _ => format!("{files} without faults, {}", counted(warnings, "warning")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_agents::agent;

    fn checked(path: &str, text: &str) -> Checked {
        let parsed = agent::parse(path, text);
        let usable = parsed.map(|parsed| Usable {
            source: text.to_owned(),
            parsed,
        });
        Checked::of(path, usable)
    }

    fn files() -> [Checked; 3] {
        [
            checked("a.md", "P"),
            checked("b.md", "---\ncolour: red\n---\nP"),
            checked("c.md", "---\nhidden: 1\nmode: none\n---\nP"),
        ]
    }

    #[test]
    fn each_finding_is_a_line_after_its_file() {
        let files = files();
        let lines = files.iter().flat_map(|it| lines(it, Style::new(false)));
        let expected = [
            "b.md:2: warning: colour is no field of an agent",
            "c.md:2: error: hidden is 1 (allowed: true or false)",
            "c.md:3: error: mode is \"none\" (allowed: primary, subagent, all)",
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_end_counts_faulty_files_or_else_warnings() {
        let [plain, warned, wrong] = files();
        let said = |files: &[Checked]| summary(files).map_err(|error| error.message);
        assert_eq!(said(&[plain]), Ok("1 file without faults".to_owned()));
        let wanted = "1 file without faults, 1 warning".to_owned();
        assert_eq!(said(std::slice::from_ref(&warned)), Ok(wanted));
        let wanted = "1 of 2 files has faults".to_owned();
        assert_eq!(said(&[warned, wrong]), Err(wanted));
    }

    #[test]
    fn json_has_the_digest_or_the_faults() {
        let [plain, _, wrong] = files();
        let value = json(&plain);
        assert_eq!(value["name"], "a");
        assert_eq!(value["digest"].as_str().map(str::len), Some(64));
        assert_eq!(value["faults"], json!([]));
        let value = json(&wrong);
        assert_eq!(value["digest"], Value::Null);
        let first = json!({
            "line": 2,
            "field": "hidden",
            "problem": "is 1",
            "allowed": "true or false",
        });
        assert_eq!(value["faults"][0], first);
    }
}
