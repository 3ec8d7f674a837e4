//! `read` of files that do not fit into one answer.

use super::*;

/// TO-57: an answer that is full ends with a whole line and names the next one.
#[tokio::test]
async fn a_long_file_is_read_in_pieces_without_a_gap() {
    let bench = Bench::new();
    let line = |number: usize| format!("{number} {}", "é".repeat(60));
    let text: Vec<_> = (1..=3_000).map(line).collect();
    bench.put("long.txt", text.join("\n"));
    let (mut seen, mut offset) = (Vec::new(), Some(1));

    while let Some(from) = offset {
        let reply = bench.call("read", json!({"file_path": "long.txt", "offset": from})).await;
        assert!(reply.fault.is_none() && !reply.truncated, "{reply:?}");
        let shown = reply.content.lines().filter_map(|line| line.split_once('│'));
        seen.extend(shown.map(|(_, line)| line.to_owned()));
        offset = reply.content.lines().last().and_then(|note| {
            let rest = note.strip_prefix('[')?.split_once("`offset` ")?.1;
            rest.trim_end_matches(']').parse::<usize>().ok()
        });
    }

    assert_eq!(seen, text);
}
