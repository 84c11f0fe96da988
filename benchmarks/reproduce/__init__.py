"""The paper's tables 2 to 4 and its figure 1, with the controls that the paper lacks."""
