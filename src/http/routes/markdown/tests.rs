//! What texts mean; the examples of the specification are tried in a browser.

use super::parser::*;
use crate::api::markdown::{MarkdownKind as Kind, MarkdownNode as Node};

fn text(words: &str) -> Node {
    of(Kind::Text, words)
}

fn within(kind: Kind, children: &[Node]) -> Node {
    Node { children: children.to_vec(), ..of(kind, "") }
}

fn paragraph(children: &[Node]) -> Vec<Node> {
    vec![within(Kind::Paragraph, children)]
}

fn link(words: &str, address: &str) -> Node {
    Node { children: vec![text(words)], ..leading(Kind::Link, address, "") }
}

#[test]
fn html_is_text() {
    assert_eq!(parse("a <b onclick=x>b</b>"), paragraph(&[text("a <b onclick=x>b</b>")]));
    assert_eq!(
        parse("<script>\nalert(1)\n</script>"),
        paragraph(&[text("<script>\nalert(1)\n</script>")])
    );
}

#[test]
fn an_address_in_a_text_is_a_link_without_the_marks_around_it() {
    for (words, before, address, behind) in [
        ("see https://a.example/x_y_z.", "see ", "https://a.example/x_y_z", "."),
        ("(https://a.example/b_(c))", "(", "https://a.example/b_(c)", ")"),
        ("http://a.example/?q=1&r=2, then", "", "http://a.example/?q=1&r=2", ", then"),
    ] {
        let expected = [text(before), link(address, address), text(behind)];
        let expected: Vec<Node> = expected.into_iter().filter(|node| *node != text("")).collect();
        assert_eq!(parse(words), paragraph(&expected), "{words}");
    }
    assert_eq!(parse("www.a.example"), paragraph(&[link("www.a.example", "http://www.a.example")]));
    for plain in ["xhttps://a.example", "https://", "www."] {
        assert_eq!(parse(plain), paragraph(&[text(plain)]), "{plain}");
    }
    let named = parse("[https://a.example](https://b.example)");
    assert_eq!(named, paragraph(&[link("https://a.example", "https://b.example")]));
}

#[test]
fn a_table_has_aligned_cells_and_a_task_list_has_ticks() {
    let blocks = parse("| a | b |\n|:--|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n- other");

    let cells: Vec<&str> = blocks[0].children[1].children.iter().map(|cell| &*cell.align).collect();
    assert_eq!(cells, ["left", "right"]);
    let ticks: Vec<Option<bool>> = blocks[1].children.iter().map(|item| item.checked).collect();
    assert_eq!(ticks, [Some(true), Some(false), None]);
}

fn depth(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| 1 + depth(&node.children)).max().unwrap_or_default()
}

/// A model may write anything.
#[test]
fn what_is_nested_without_end_stays_shallow_and_loses_no_word() {
    let blocks = parse(&format!("{}deep", "> ".repeat(20_000)));

    assert!(depth(&blocks) <= DEEPEST + 1, "{}", depth(&blocks));
    assert!(serde_json::to_string(&blocks).unwrap().contains("deep"));
}
