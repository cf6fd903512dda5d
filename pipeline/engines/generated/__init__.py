"""What models that generate a whole page's text say, and what that means for the page model."""
