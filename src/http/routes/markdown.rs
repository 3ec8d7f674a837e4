//! `/api/v1/markdown`: what texts mean, as trees.

use hivewright_actors::blocking;

use crate::{
    api::{endpoint::*, markdown::*, reply::*},
    http::kit::{call::*, error::*},
};

mod parser;
#[cfg(test)]
mod tests;

pub(super) async fn parse(
    Call { body, .. }: Call<Empty, Empty, MarkdownTexts>,
) -> ApiResult<Data<Vec<MarkdownTree>>> {
    let trees = blocking::run(move || {
        let trees = body.texts.iter().map(|text| MarkdownTree { blocks: parser::parse(text) });
        trees.collect()
    });
    Ok(Data(trees.await?))
}
