// Blocks that scroll can be reached by the keyboard, and the search has a name for who cannot see it.
const name = (selector, attribute, value) =>
  document.querySelectorAll(selector).forEach((element, k) => element.setAttribute(attribute, value(k)))

addEventListener("load", () => setTimeout(() => {
  name(".md-typeset pre > code, .md-typeset__scrollwrap", "tabindex", () => "0")
  name(".md-search[role=dialog]", "aria-label", () => "Search")
  name(".md-code__nav", "aria-label", k => `Code block ${k + 1}`)
}))
