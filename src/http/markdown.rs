//! `/api/v1/markdown`: what texts mean, as trees.

use hivewright_actors::blocking;

use super::{call::*, error::*};
use crate::api::{endpoint::*, markdown::*, reply::*};

mod parser;
#[cfg(test)]
mod tests;

/// As many texts as a page shows at once.
const MOST_TEXTS: usize = 100;

pub(super) async fn parse(
    Call { body, .. }: Call<Empty, Empty, MarkdownTexts>,
) -> ApiResult<Data<Vec<MarkdownTree>>> {
    if body.texts.len() > MOST_TEXTS {
        let reason = format!("expected at most {MOST_TEXTS} texts");
        return Err(ApiError::invalid_field("texts", reason));
    }
    let trees = blocking::run(move || {
        let trees = body.texts.iter().map(|text| MarkdownTree { blocks: parser::parse(text) });
        trees.collect()
    });
    Ok(Data(trees.await?))
}
