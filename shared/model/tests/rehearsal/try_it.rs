use crate::driver::{Stage, plan};
#[test]
fn try_it() {
    for goal in std::fs::read_to_string("/tmp/goals.txt").unwrap().lines() {
        println!("GOAL {goal}");
        for (title, d) in plan(goal) {
            println!("   {title} — {d}");
        }
    }
    for line in std::fs::read_to_string("/tmp/runs.txt").unwrap().lines() {
        let (dir, goal) = line.split_once('|').unwrap();
        let mut stage = Stage::new(std::path::Path::new(dir));
        stage.output_limit = 64 * 1024;
        let run = stage.run(goal);
        for s in &run.steps {
            println!("{} [{} turns]\n   {}", s.title, s.turns, s.summary);
            for m in &s.messages {
                if !m.tool_calls.is_empty() {
                    println!(
                        "      · {} {:?}",
                        m.text,
                        m.tool_calls
                            .iter()
                            .map(|c| {
                                let mut a = c.arguments.clone();
                                a.truncate(a.floor_char_boundary(90));
                                format!("{} {a}", c.name)
                            })
                            .collect::<Vec<_>>()
                    );
                }
            }
        }
        println!("{}", run.report.unwrap_or_default());
    }
}
