//! Markdown as a tree, for pages that draw text without reading markup.

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*};

pub const PARSE_MARKDOWN: Endpoint<Data<Vec<MarkdownTree>>, Empty, Empty, MarkdownTexts> =
    Endpoint::new(
        Method::Post,
        "/api/v1/markdown",
        Needs::Login,
        "Parses texts as Markdown: CommonMark with GitHub's tables, task lists, strikethrough and links.",
    )
    .description(
        "Answers with a tree for each text, in their order. HTML in a text is text. \
         Addresses stand there as they were written: whoever shows them decides which to follow.",
    )
    .only_looks()
    .example(r#"{"texts": ["Bees make **honey**."]}"#);

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MarkdownTexts {
    #[schemars(length(max = 100))]
    pub texts: Vec<String>,
}

/// What a text means: its blocks.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarkdownTree {
    pub blocks: Vec<MarkdownNode>,
}

words! {
    #[derive(Default)]
    pub enum MarkdownKind {
        #[default]
        Text = "text",
        Paragraph = "paragraph",
        Heading = "heading",
        Rule = "rule",
        Quote = "quote",
        List = "list",
        Item = "item",
        CodeBlock = "code_block",
        Table = "table",
        Row = "row",
        Cell = "cell",
        Emphasis = "emphasis",
        Strong = "strong",
        Deleted = "deleted",
        Code = "code",
        Link = "link",
        Image = "image",
        Break = "break",
        Math = "math",
        MathBlock = "math_block",
    }
}

/// A part of a text. Which fields it has depends on its kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MarkdownNode {
    pub kind: MarkdownKind,
    /// Of text, code and mathematics.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Of a heading, from 1 to 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// The first number of a list that is numbered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Of an item of a task list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
    /// Of a cell: `left`, `center` or `right`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub align: String,
    /// Of a block of code: its language, and what else stands there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub info: String,
    /// Where a link or an image leads.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<MarkdownNode>,
}
