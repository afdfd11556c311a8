//! The reports of both runs, without times.

use super::scene::Scene;

pub(crate) async fn check(scene: &mut Scene) {
    let mut reports = String::new();
    for run in [1, 2] {
        let report = scene.report(run).await;
        let lines: Vec<String> = report.lines().map(without_times).collect();
        reports.push_str(&format!("--- run {run}\n{}\n", lines.join("\n")));
    }
    insta::assert_snapshot!("reports", reports);
    let latest = scene.report(0).await;
    assert_eq!(latest, scene.report(2).await);
}

/// How long something took depends on the machine.
fn without_times(line: &str) -> String {
    if line.starts_with("- Time: ") {
        return "- Time: <times>".to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let unit = word.trim_end_matches(['.', ')', ',']);
        let number = words.last().map(|word| word.trim_start_matches('('));
        let is_number = number.is_some_and(|it| it.parse::<f64>().is_ok());
        if !is_number || !["ms", "s"].contains(&unit) {
            words.push(word.to_owned());
            continue;
        }
        let before = words.pop().unwrap_or_default();
        let open = if before.starts_with('(') { "(" } else { "" };
        words.push(format!("{open}<time>{}", &word[unit.len()..]));
    }
    let line = words.join(" ");
    // A call that took no time is shown without one.
    line.strip_suffix(" (<time>)").unwrap_or(&line).to_owned()
}
