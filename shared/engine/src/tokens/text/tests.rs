use super::*;
use proptest::prelude::*;

/// Texts of each kind with their tokens in `o200k_base`.
const COUNTED: [(&str, u64, &str); 7] = [
    (
        "english",
        108,
        r#"The orchestrator claims a session, folds its journal from the latest checkpoint, and continues every attempt that was under way. A call without a result is made again if it is pure or idempotent. A call with side effects, whose outcome nobody knows, waits for a person instead: nothing happens twice without consent. Most readers care about one question only, which is whether the work of yesterday is still there this morning. It is. You can kill any process at any moment, and the next one picks up where the journal ends.
"#,
    ),
    (
        "rust",
        125,
        r#"/// Waits until every attempt has ended, and begins no further ones.
pub async fn drain(&self, deadline: Duration) -> Result<usize, DrainError> {
    let mut ended = 0;
    for (name, attempt) in self.attempts.lock().await.iter_mut() {
        if attempt.status == Status::Running && !attempt.has_open_calls() {
            attempt.cancel(CancelReason::Draining).await?;
            ended += 1;
        }
        tracing::debug!(%name, elapsed = ?attempt.started.elapsed(), "attempt drained");
    }
    Ok(ended)
}
"#,
    ),
    (
        "python",
        113,
        r#"def load_rows(path: str, *, limit: int = 100) -> list[dict]:
    """Reads at most `limit` rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as handle:
        reader = csv.DictReader(handle)
        rows = [row for _, row in zip(range(limit), reader)]
    if not rows:
        raise ValueError(f"no rows in {path!r}")
    return sorted(rows, key=lambda row: (row["name"], -int(row["count"])))
"#,
    ),
    (
        "json",
        137,
        r#"{"orders":[{"id":48213,"customer":{"name":"Ada Lovelace","email":"ada@example.com"},"total":129.95,"currency":"EUR","paid":true,"created_at":"2026-11-27T09:14:03Z"},{"id":48214,"customer":{"name":"Alan Turing","email":"alan@example.com"},"total":74.5,"currency":"GBP","paid":false,"created_at":"2026-11-27T10:02:41Z"}],
  "page": {
    "next": null,
    "size": 50,
    "total": 1204
  }
}
"#,
    ),
    (
        "chinese",
        107,
        r#"会话的所有事件都写在日志里。进程随时可以被终止，下一个进程会从日志的末尾继续工作，已经完成的步骤不会再次执行。如果一次调用的结果未知，系统会等待人的决定，而不会自作主张地重复它。这样，昨天完成的工作今天早上仍然存在。计划是数据：你可以阅读它，修改它，或者写下意见；系统会说明一次修改保留什么，重复什么，放弃什么。
"#,
    ),
    (
        "mix",
        144,
        r#"## 结果

`search_files` found 3 matches in `src/owner/work.rs`:

    42	    let limit = self.limits.max_tool_turns; // 上限

| file | line | 说明 |
|------|-----:|------|
| src/owner/work.rs | 42 | 每个步骤最多 10 次 |
| src/lib.rs | 7 | re-export |

Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b, see https://example.com/cairn/issues/128?sort=new. Итого: три файла, 1,204 bytes — OK ✅
"#,
    ),
    (
        "base64",
        66,
        r#"iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg=="#,
    ),
];

#[test]
fn texts_of_each_kind_are_estimated_within_a_tenth() {
    for (kind, tokens, text) in COUNTED {
        let estimate = of_text(text);
        assert!(
            estimate.abs_diff(tokens) * 10 < tokens,
            "{kind}: {estimate} in place of {tokens}"
        );
    }
}

#[test]
fn each_piece_costs_what_it_costs_by_itself() {
    for (text, expected) in [
        ("", 0),
        ("word", 108),
        (" word", 100),
        (" wonderful", 125),
        ("firstWord", 116 + 108),
        ("HTTP", 125),
        ("1234567", 300),
        (" 12", 200),
        ("     12", 300),
        ("    word", 200),
        ("word   \n\n", 208),
        ("a.b", 200),
        ("a .b", 300),
        ("----------", 160),
        ("a;\n", 200),
        ("a }}));\n", 100 + 180),
        ("计划", 140),
        ("ひら", 136),
        ("é", 90),
        ("él", 110),
        ("🦀", 150),
        ("3f2a9c01b7d4", 12 * 57),
        ("aB3xQz9LmN2k", 12 * 70),
    ] {
        assert_eq!(hundredths(text), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_has_tokens_and_not_more_than_its_bytes(text in any::<String>()) {
        let tokens = of_text(&text);
        prop_assert!(tokens <= text.len() as u64, "{tokens}");
        prop_assert!(tokens > 0 || text.trim().is_empty());
    }
}
