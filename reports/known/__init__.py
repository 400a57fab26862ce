"""The known defects of TensorFlow, a JSON file each: installed as the data of gradcheck.known_defects."""
