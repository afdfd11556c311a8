//! How full the servers are.

use super::inner::Inner;
use crate::port::{Fill, StoreResult};
use redis::Value;

impl Inner {
    /// See [`Store::fill`](crate::port::Store::fill). Servers that may not tell are left out.
    pub(super) async fn fill(&self) -> StoreResult<Option<Fill>> {
        let mut question = redis::cmd("INFO");
        question.arg("memory");
        let answers = self.servers.ask_servers(&question).await?;
        let fills = answers.into_iter().filter_map(|answer| match answer.value {
            Value::BulkString(text) => fill(&String::from_utf8_lossy(&text)),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => fill(&text),
            _ => None,
        });
        // The fullest refuses first.
        Ok(fills
            .max_by_key(|fill| u128::from(fill.used_bytes) * 1000 / u128::from(fill.most_bytes)))
    }
}

/// What a server says of its memory. What it keeps for replicas does not count, for it neither.
pub(super) fn fill(text: &str) -> Option<Fill> {
    let field = |name: &str| -> Option<u64> {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value?.trim().parse().ok()
    };
    let most_bytes = field("maxmemory").filter(|most| *most > 0)?;
    let used = field("used_memory")?;
    Some(Fill {
        used_bytes: used.saturating_sub(field("mem_not_counted_for_evict").unwrap_or(0)),
        most_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_limited_is_never_full() {
        let told = "used_memory:800\r\nused_memory_human:800B\r\nmaxmemory:1000\r\n\
                    maxmemory_policy:noeviction\r\nmem_not_counted_for_evict:50\r\n";
        let want = Fill {
            used_bytes: 750,
            most_bytes: 1000,
        };
        assert_eq!(fill(told), Some(want));
        assert_eq!(fill(&told.replace("1000", "0")), None);
        assert_eq!(fill("used_memory:800\r\n"), None);
    }
}
