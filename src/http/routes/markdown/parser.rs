//! Markdown parser: a text to its tree, by CommonMark and GitHub's additions to it.
//!
//! The tree has no HTML: what a text has of it stands there as text.

use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream,
};

use crate::api::markdown::{MarkdownKind as Kind, MarkdownNode as Node};

/// What is nested deeper stands at this depth, so that nobody who walks the tree runs out of stack.
pub(super) const DEEPEST: usize = 32;

/// Parses a text.
pub(super) fn parse(text: &str) -> Vec<Node> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH;
    let mut tree = Tree { open: vec![Node::default()], skipped: Vec::new(), columns: Vec::new() };
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        tree.take(event);
    }
    tree.blocks()
}

/// A tree that grows.
struct Tree {
    /// The root, and what is not closed yet below it.
    open: Vec<Node>,
    /// For each thing that is not closed, whether it is too deep to be there.
    skipped: Vec<bool>,
    /// How the columns of the table are aligned.
    columns: Vec<Alignment>,
}

impl Tree {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) if self.takes_plain_text() => self.top().text.push_str(&text),
            Event::Text(text) if self.is_in(Kind::Link) => self.say(&text),
            Event::Text(text) => self.say_with_links(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.say(&text),
            Event::Code(text) => self.add(of(Kind::Code, &text)),
            Event::InlineMath(text) => self.add(of(Kind::Math, &text)),
            Event::DisplayMath(text) => self.add(of(Kind::MathBlock, &text)),
            Event::SoftBreak => self.say("\n"),
            Event::HardBreak => self.add(of(Kind::Break, "")),
            Event::Rule => self.add(of(Kind::Rule, "")),
            Event::TaskListMarker(checked) => self.check(checked),
            // Only with an option that is not chosen.
            Event::FootnoteReference(name) => self.say(&name),
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        let node = match tag {
            Tag::Paragraph | Tag::HtmlBlock => of(Kind::Paragraph, ""),
            Tag::Heading { level, .. } => {
                Node { level: Some(level as u8), ..of(Kind::Heading, "") }
            }
            Tag::BlockQuote(_) => of(Kind::Quote, ""),
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => {
                Node { info: info.into_string(), ..of(Kind::CodeBlock, "") }
            }
            Tag::CodeBlock(CodeBlockKind::Indented) => of(Kind::CodeBlock, ""),
            Tag::List(start) => Node { start, ..of(Kind::List, "") },
            Tag::Item => of(Kind::Item, ""),
            Tag::Table(columns) => {
                self.columns = columns;
                of(Kind::Table, "")
            }
            Tag::TableHead | Tag::TableRow => of(Kind::Row, ""),
            Tag::TableCell => Node { align: self.alignment(), ..of(Kind::Cell, "") },
            Tag::Emphasis => of(Kind::Emphasis, ""),
            Tag::Strong => of(Kind::Strong, ""),
            Tag::Strikethrough => of(Kind::Deleted, ""),
            Tag::Link { link_type: LinkType::Email, dest_url, .. } => {
                leading(Kind::Link, &format!("mailto:{dest_url}"), "")
            }
            Tag::Link { dest_url, title, .. } => leading(Kind::Link, &dest_url, &title),
            Tag::Image { dest_url, title, .. } => leading(Kind::Image, &dest_url, &title),
            // Only with options that are not chosen.
            _ => of(Kind::Paragraph, ""),
        };
        let too_deep = self.open.len() > DEEPEST;
        self.skipped.push(too_deep);
        if !too_deep {
            self.open.push(node);
        }
    }

    fn end(&mut self, _: TagEnd) {
        if self.skipped.pop() == Some(false)
            && let Some(node) = self.open.pop()
        {
            self.add(node);
        }
    }

    fn blocks(mut self) -> Vec<Node> {
        while self.open.len() > 1 {
            self.end(TagEnd::Paragraph);
        }
        self.open.pop().unwrap_or_default().children
    }

    /// What is open innermost.
    fn top(&mut self) -> &mut Node {
        if self.open.is_empty() {
            self.open.push(Node::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn is_in(&self, kind: Kind) -> bool {
        self.open.iter().any(|node| node.kind == kind)
    }

    /// What is open is words alone.
    fn takes_plain_text(&self) -> bool {
        self.open.last().is_some_and(|node| node.kind == Kind::CodeBlock)
    }

    /// How the next cell of a row is aligned.
    fn alignment(&mut self) -> String {
        let column = self.top().children.len();
        let name = match self.columns.get(column) {
            Some(Alignment::Left) => "left",
            Some(Alignment::Center) => "center",
            Some(Alignment::Right) => "right",
            Some(Alignment::None) | None => "",
        };
        name.to_owned()
    }

    fn add(&mut self, node: Node) {
        self.top().children.push(node);
    }

    /// Adds words, to those that stand before them if there are some.
    fn say(&mut self, text: &str) {
        let children = &mut self.top().children;
        match children.last_mut() {
            Some(last) if last.kind == Kind::Text => last.text.push_str(text),
            _ => children.push(of(Kind::Text, text)),
        }
    }

    /// The same with addresses that stand in the text as such.
    fn say_with_links(&mut self, text: &str) {
        let mut rest = text;
        let mut before = None;
        while let Some((start, end)) = next_address(rest, before) {
            let (words, address) = (&rest[..start], &rest[start..end]);
            if !words.is_empty() {
                self.say(words);
            }
            let scheme = if address.starts_with("www.") { "http://" } else { "" };
            let link = leading(Kind::Link, &format!("{scheme}{address}"), "");
            self.add(Node { children: vec![of(Kind::Text, address)], ..link });
            before = address.chars().next_back();
            rest = &rest[end..];
        }
        if !rest.is_empty() {
            self.say(rest);
        }
    }

    /// Marks the item that is open as one of a task list.
    fn check(&mut self, checked: bool) {
        let item = self.open.iter_mut().rev().find(|node| node.kind == Kind::Item);
        if let Some(item) = item {
            item.checked = Some(checked);
        }
    }
}

pub(super) fn of(kind: Kind, text: &str) -> Node {
    Node { kind, text: text.to_owned(), ..Node::default() }
}

pub(super) fn leading(kind: Kind, address: &str, title: &str) -> Node {
    Node { address: address.to_owned(), title: title.to_owned(), ..of(kind, "") }
}

/// Where the next address stands in a text, by the rules of GitHub's Markdown. `before` stands before the text.
fn next_address(text: &str, before: Option<char>) -> Option<(usize, usize)> {
    text.match_indices(['h', 'w']).find_map(|(start, _)| {
        let rest = &text[start..];
        let prefix =
            ["http://", "https://", "www."].into_iter().find(|one| rest.starts_with(one))?;
        let previous = text[..start].chars().next_back().or(before.filter(|_| start == 0));
        let stands_free = previous.is_none_or(|one| one.is_whitespace() || "*_~(".contains(one));
        let has_host = rest[prefix.len()..].starts_with(char::is_alphanumeric);
        (stands_free && has_host).then(|| (start, start + address_length(rest)))
    })
}

/// How far an address goes: up to a blank or `<`, without marks that end a sentence or close a bracket before it.
fn address_length(text: &str) -> usize {
    let end = text.find(|one: char| one.is_whitespace() || one == '<').unwrap_or(text.len());
    let mut address = &text[..end];
    let mut closing = address.matches(')').count();
    let opening = address.matches('(').count();
    loop {
        let Some(last) = address.chars().next_back() else { return 0 };
        match last {
            '?' | '!' | '.' | ',' | ':' | ';' | '*' | '_' | '~' | '\'' | '"' | ']' | '}' | '`' => {}
            ')' if closing > opening => closing -= 1,
            _ => return address.len(),
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}
