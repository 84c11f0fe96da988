"""The paper's tables 2 to 4 and its figure 1, on the data at hand, with the controls that the paper lacks."""
