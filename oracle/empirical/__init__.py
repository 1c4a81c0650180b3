"""Match probabilities where no engine gives them: averages of accepted tokens, or a draft's scores of the text."""
